//! A picture in pixels.

use std::convert::Infallible;

use embedded_graphics::Pixel;
use embedded_graphics::draw_target::DrawTarget;
use embedded_graphics::geometry::{OriginDimensions, Point, Size};
use embedded_graphics::mono_font::{MonoFont, MonoTextStyle, ascii};
use embedded_graphics::pixelcolor::{Rgb888, RgbColor};
use embedded_graphics::prelude::Drawable;
use embedded_graphics::primitives::{Primitive, PrimitiveStyle, Rectangle, RoundedRectangle};
use embedded_graphics::text::{Baseline, Text};
use homeostat_env::{Colour, Picture, Place, Shape, TextSize};
use numpy::{PyArray1, PyArray3, PyArrayMethods};
use pyo3::prelude::*;

/// Pixels of a picture.
pub(crate) struct Raster {
    width: u32,
    height: u32,
    bytes: Vec<u8>,
}

impl Raster {
    /// Draws a picture.
    pub(crate) fn of(picture: &Picture) -> Self {
        let Picture { width, height, .. } = *picture;
        Self { width, height, bytes: rasterise(picture) }
    }

    /// Height, width, and red, green and blue, as an array that owns them.
    pub(crate) fn into_array(self, py: Python<'_>) -> PyResult<Bound<'_, PyArray3<u8>>> {
        let shape = [self.height as usize, self.width as usize, 3];
        PyArray1::from_vec(py, self.bytes).reshape(shape)
    }
}

/// Red, green and blue of every pixel, row by row.
fn rasterise(picture: &Picture) -> Vec<u8> {
    let Colour(red, green, blue) = picture.background;
    let pixels = picture.width as usize * picture.height as usize;
    let mut canvas = Canvas {
        size: Size::new(picture.width, picture.height),
        bytes: [red, green, blue].repeat(pixels),
    };
    for shape in &picture.shapes {
        let Ok(()) = draw(shape, &mut canvas);
    }
    canvas.bytes
}

fn draw(shape: &Shape, canvas: &mut Canvas) -> Result<(), Infallible> {
    match shape {
        Shape::Area { place, radius, fill } => {
            rounded(place, *radius).into_styled(PrimitiveStyle::with_fill(rgb(*fill))).draw(canvas)
        }
        Shape::Outline { place, radius, line } => rounded(place, *radius)
            .into_styled(PrimitiveStyle::with_stroke(rgb(*line), 1))
            .draw(canvas),
        Shape::Text { left, top, size, colour, text } => {
            let style = MonoTextStyle::new(font(*size), rgb(*colour));
            let at = Point::new(*left, *top);
            Text::with_baseline(text, at, style, Baseline::Top).draw(canvas).map(|_| ())
        }
    }
}

fn rounded(place: &Place, radius: u32) -> RoundedRectangle {
    let corner = Point::new(place.left, place.top);
    let rectangle = Rectangle::new(corner, Size::new(place.width, place.height));
    RoundedRectangle::with_equal_corners(rectangle, Size::new_equal(radius))
}

fn rgb(Colour(red, green, blue): Colour) -> Rgb888 {
    Rgb888::new(red, green, blue)
}

/// Fonts of the widths that pictures reckon with.
fn font(size: TextSize) -> &'static MonoFont<'static> {
    match size {
        TextSize::Small => &ascii::FONT_6X10,
        TextSize::Normal => &ascii::FONT_7X13,
        TextSize::Large => &ascii::FONT_9X18_BOLD,
    }
}

struct Canvas {
    size: Size,
    bytes: Vec<u8>,
}

impl OriginDimensions for Canvas {
    fn size(&self) -> Size {
        self.size
    }
}

impl DrawTarget for Canvas {
    type Color = Rgb888;
    type Error = Infallible;

    fn draw_iter<I: IntoIterator<Item = Pixel<Rgb888>>>(
        &mut self,
        pixels: I,
    ) -> Result<(), Infallible> {
        let (width, height) = (self.size.width as i32, self.size.height as i32);
        for Pixel(Point { x, y }, colour) in pixels {
            if (0..width).contains(&x) && (0..height).contains(&y) {
                let start = (y as usize * width as usize + x as usize) * 3;
                let pixel = [colour.r(), colour.g(), colour.b()];
                self.bytes[start..start + 3].copy_from_slice(&pixel);
            }
        }
        Ok(())
    }
}
