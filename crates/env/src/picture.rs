//! Rendered states as shapes; the code that shows them chooses pixels and fonts.

/// A picture of a state, drawn in the order of its shapes. Lengths are pixels, y points down.
#[derive(Debug, Clone, PartialEq)]
pub struct Picture {
    /// Width.
    pub width: u32,
    /// Height.
    pub height: u32,
    /// Background colour.
    pub background: Colour,
    /// The shapes, from the back to the front.
    pub shapes: Vec<Shape>,
}

/// Red, green and blue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Colour(pub u8, pub u8, pub u8);

/// An element of a picture.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    /// A filled rectangle.
    Area {
        /// Left, top, width and height.
        place: Place,
        /// Corner radius.
        radius: u32,
        /// Its colour.
        fill: Colour,
    },
    /// The outline of a rectangle, one pixel wide.
    Outline {
        /// Left, top, width and height.
        place: Place,
        /// Corner radius.
        radius: u32,
        /// Its colour.
        line: Colour,
    },
    /// A line of monospaced text.
    Text {
        /// Left end.
        left: i32,
        /// Top of its letters.
        top: i32,
        /// Size of its letters.
        size: TextSize,
        /// Its colour.
        colour: Colour,
        /// The text itself.
        text: String,
    },
}

/// A rectangle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Left end.
    pub left: i32,
    /// Upper end.
    pub top: i32,
    /// Width.
    pub width: u32,
    /// Height.
    pub height: u32,
}

/// Sizes of monospaced text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextSize {
    /// Labels.
    Small,
    /// Body text.
    Normal,
    /// A heading.
    Large,
}

impl TextSize {
    /// Width and height of a letter.
    pub const fn letter(self) -> (u32, u32) {
        match self {
            Self::Small => (6, 10),
            Self::Normal => (7, 13),
            Self::Large => (9, 18),
        }
    }
}

impl Picture {
    /// The colour of text.
    pub const INK: Colour = Colour(31, 35, 40);
    /// The colour of the background.
    pub const PAPER: Colour = Colour(255, 255, 255);

    /// An empty picture.
    pub fn new(width: u32, height: u32) -> Self {
        Self { width, height, background: Self::PAPER, shapes: Vec::new() }
    }

    /// Text as a picture of at least `columns` by `rows` letters, so that the size stays constant
    /// while the text changes.
    pub fn of_text(text: &str, columns: usize, rows: usize) -> Self {
        const MARGIN: u32 = 8;
        let (letter, line) = TextSize::Normal.letter();
        let columns = text.lines().map(|line| line.chars().count()).max().unwrap_or(0).max(columns);
        let rows = text.lines().count().max(rows);
        let mut picture =
            Self::new(columns as u32 * letter + 2 * MARGIN, rows as u32 * line + 2 * MARGIN);
        for (row, words) in text.lines().enumerate() {
            let top = MARGIN as i32 + row as i32 * line as i32;
            picture.text(MARGIN as i32, top, TextSize::Normal, Self::INK, words);
        }
        picture
    }

    /// Adds a filled rectangle.
    pub fn area(&mut self, place: Place, radius: u32, fill: Colour) {
        self.shapes.push(Shape::Area { place, radius, fill });
    }

    /// Adds the outline of a rectangle.
    pub fn outline(&mut self, place: Place, radius: u32, line: Colour) {
        self.shapes.push(Shape::Outline { place, radius, line });
    }

    /// Adds a line of text.
    pub fn text(&mut self, left: i32, top: i32, size: TextSize, colour: Colour, text: &str) {
        self.shapes.push(Shape::Text { left, top, size, colour, text: text.to_owned() });
    }
}

impl Place {
    /// A rectangle.
    pub const fn new(left: i32, top: i32, width: u32, height: u32) -> Self {
        Self { left, top, width, height }
    }
}

impl Colour {
    /// Linear interpolation towards another colour, from 0 to 1.
    pub fn towards(self, other: Self, part: f64) -> Self {
        let mix = |own: u8, other: u8| {
            (f64::from(own) + (f64::from(other) - f64::from(own)) * part.clamp(0.0, 1.0)) as u8
        };
        Self(mix(self.0, other.0), mix(self.1, other.1), mix(self.2, other.2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_of_text_has_room_for_every_letter_and_keeps_its_size() {
        let small = Picture::of_text("a\nbc", 10, 4);
        let same = Picture::of_text("longer txt", 10, 4);
        assert_eq!((small.width, small.height), (same.width, same.height));
        assert_eq!(small.shapes.len(), 2);
        let wide = Picture::of_text("more than ten letters", 10, 4);
        assert!(wide.width > small.width);
    }

    #[test]
    fn colours_mix() {
        let half = Colour(0, 100, 200).towards(Colour(100, 100, 0), 0.5);
        assert_eq!(half, Colour(50, 100, 100));
    }
}
