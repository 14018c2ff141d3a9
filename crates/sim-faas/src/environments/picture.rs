//! A platform as a picture: its nodes with the containers on them, coloured by function, and
//! below a row for each function that says whether its SLO is met.

use homeostat_core::SimDuration;
use homeostat_env::{Colour, Picture, Place, TextSize};

use super::tenants::{Tenant, Tenants};
use crate::platform::{ContainerState, ContainerView, FunctionId, NodeView};

const WIDTH: u32 = 860;
const MARGIN: i32 = 16;
const GAP: i32 = 10;
const HEADER: i32 = 44;

/// More nodes and functions than these would make the picture unreadable.
const MAX_NODES: usize = 24;
const MAX_ROWS: usize = 24;

const SQUARE: i32 = 13;
const SQUARE_PITCH: i32 = 16;
const SQUARE_ROWS: i32 = 4;
const CARD_HEIGHT: i32 = 58 + SQUARE_ROWS * SQUARE_PITCH + 6;
const ROW_HEIGHT: i32 = 20;

const PAGE: Colour = Colour(246, 248, 250);
const CARD: Colour = Colour(255, 255, 255);
const LINE: Colour = Colour(208, 215, 222);
const FAINT: Colour = Colour(101, 109, 118);
const TROUGH: Colour = Colour(234, 238, 242);
const MET: Colour = Colour(45, 164, 78);
const VIOLATED: Colour = Colour(207, 34, 46);
const CPU: Colour = Colour(84, 120, 190);
const MEMORY: Colour = Colour(130, 110, 190);

/// Colours that stay apart on white, by function.
const FUNCTIONS: [Colour; 12] = [
    Colour(31, 119, 180),
    Colour(255, 127, 14),
    Colour(44, 160, 44),
    Colour(214, 39, 40),
    Colour(148, 103, 189),
    Colour(140, 86, 75),
    Colour(227, 119, 194),
    Colour(110, 110, 110),
    Colour(170, 170, 20),
    Colour(23, 190, 207),
    Colour(70, 70, 160),
    Colour(250, 170, 90),
];

/// The platform of a multi-agent environment, or a text before the first reset.
pub(crate) fn draw_or_ask_for_a_reset(tenants: Option<&Tenants>) -> Picture {
    let drawn = tenants.map(draw);
    drawn.unwrap_or_else(|| Picture::of_text("reset the environment to see it", 60, 12))
}

/// The platform and its tenants as they are now. The size depends on their numbers alone.
pub(crate) fn draw(tenants: &Tenants) -> Picture {
    let nodes: Vec<NodeView> = tenants.platform.node_views().collect();
    let chains = tenants.chains().count();
    let shown_nodes = nodes.len().min(MAX_NODES);
    let columns = match shown_nodes {
        0..=4 => shown_nodes.max(1),
        5..=12 => 4,
        _ => 6,
    };
    let card_rows = shown_nodes.div_ceil(columns) as i32;
    let shown_tenants = tenants.present.len().min(MAX_ROWS);
    let shown_chains = chains.min(MAX_ROWS);
    let table_top = HEADER + card_rows * (CARD_HEIGHT + GAP) + 8;
    let height = table_top + (shown_tenants + shown_chains + 1) as i32 * ROW_HEIGHT + MARGIN;
    let mut picture = Picture { background: PAGE, ..Picture::new(WIDTH, height as u32) };
    header(&mut picture, tenants, nodes.len());
    let card_width = (WIDTH as i32 - 2 * MARGIN - (columns as i32 - 1) * GAP) / columns as i32;
    let containers: Vec<ContainerView> = tenants.platform.container_views().collect();
    for (number, node) in nodes.iter().take(MAX_NODES).enumerate() {
        let (row, column) = ((number / columns) as i32, (number % columns) as i32);
        let place = Place::new(
            MARGIN + column * (card_width + GAP),
            HEADER + row * (CARD_HEIGHT + GAP),
            card_width as u32,
            CARD_HEIGHT as u32,
        );
        let own = containers.iter().filter(|container| container.node == number);
        card(&mut picture, place, number, node, own);
    }
    let mut table = Table { picture: &mut picture, top: table_top };
    table.headings();
    for tenant in tenants.present.iter().take(MAX_ROWS) {
        table.function(tenants, tenant);
    }
    for (number, chain) in tenants.plan.chains().iter().take(MAX_ROWS).enumerate() {
        let window = tenants.chain_window(number);
        let latency = window.and_then(|window| window.latency);
        table.chain(&chain.name, chain.objective.slo.threshold(), latency);
    }
    let functions = (tenants.present.len() - shown_tenants, "function");
    let nodes = (nodes.len() - shown_nodes, "node");
    let left_out = [functions, nodes].into_iter().filter(|(count, _)| *count > 0);
    let left_out: Vec<String> =
        left_out.map(|(count, what)| format!("{count} {what}{}", plural(count))).collect();
    if !left_out.is_empty() {
        table.text(0, FAINT, &format!("and {} more", left_out.join(" and ")));
    }
    picture
}

fn header(picture: &mut Picture, tenants: &Tenants, nodes: usize) {
    let platform = &tenants.platform;
    let seconds = platform.now().seconds().round() as u64;
    let title = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    picture.text(MARGIN, 14, TextSize::Large, Picture::INK, &title);
    let facts = format!(
        "{} function{} on {nodes} node{}   cpu {:.0} %   memory {:.0} %",
        tenants.present.len(),
        plural(tenants.present.len()),
        plural(nodes),
        platform.cpu_in_use() * 100.0,
        platform.memory_in_use() * 100.0,
    );
    picture.text(MARGIN + 100, 17, TextSize::Normal, FAINT, &facts);
    // The legend stands at the right, in the words of the squares.
    let mut left = WIDTH as i32 - MARGIN - 296;
    for (state, name) in [
        (ContainerState::Busy, "busy"),
        (ContainerState::Idle, "idle"),
        (ContainerState::Starting, "starting"),
        (ContainerState::Draining, "going"),
    ] {
        square(picture, left, 16, FUNCTIONS[7], state);
        picture.text(left + 18, 17, TextSize::Normal, FAINT, name);
        left += 18 + 7 * name.len() as i32 + 18;
    }
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

fn card<'a>(
    picture: &mut Picture,
    place: Place,
    number: usize,
    node: &NodeView,
    containers: impl Iterator<Item = &'a ContainerView>,
) {
    picture.area(place, 6, CARD);
    picture.outline(place, 6, if node.is_up { LINE } else { VIOLATED });
    let (left, top) = (place.left + 10, place.top + 8);
    let name = if node.is_up { format!("node {number}") } else { format!("node {number}, down") };
    picture.text(left, top, TextSize::Normal, Picture::INK, &name);
    let width = place.width as i32 - 20;
    let gibibytes = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    let cores = format!("{:.1} of {} cores", node.cores_in_use, node.cores);
    meter(picture, left, top + 17, width, node.cores_in_use / node.cores, CPU, &cores);
    let (used, all) = (gibibytes(node.memory_set_aside.bytes()), gibibytes(node.memory.bytes()));
    let memory = format!("{used:.1} of {all:.0} GiB");
    meter(picture, left, top + 31, width, used / all, MEMORY, &memory);
    let per_row = (width / SQUARE_PITCH).max(1);
    let room = per_row * SQUARE_ROWS;
    let mut own: Vec<&ContainerView> = containers.collect();
    own.sort_by_key(|container| container.function);
    // The last square makes room for the number of those that are not drawn.
    let drawn = if own.len() as i32 > room { room - 2 } else { own.len() as i32 };
    let at = |index: i32| {
        let (row, column) = (index / per_row, index % per_row);
        (left + column * SQUARE_PITCH, top + 50 + row * SQUARE_PITCH)
    };
    for (index, container) in own.iter().take(drawn as usize).enumerate() {
        let (left, top) = at(index as i32);
        square(picture, left, top, colour_of(container.function), container.state);
    }
    if drawn < own.len() as i32 {
        let (left, top) = at(drawn);
        let more = format!("+{}", own.len() as i32 - drawn);
        picture.text(left, top + 2, TextSize::Small, FAINT, &more);
    }
}

/// How much of something is used, with words at its right.
fn meter(
    picture: &mut Picture,
    left: i32,
    top: i32,
    width: i32,
    part: f64,
    fill: Colour,
    text: &str,
) {
    const WORDS: i32 = 112;
    let has_room = width >= WORDS + 40;
    let bar = if has_room { width - WORDS } else { width };
    bar_of(picture, Place::new(left, top + 1, bar as u32, 8), part, fill);
    if has_room {
        picture.text(left + bar + 8, top, TextSize::Small, FAINT, text);
    }
}

fn bar_of(picture: &mut Picture, place: Place, part: f64, fill: Colour) {
    picture.area(place, 3, TROUGH);
    let filled = (f64::from(place.width) * part.clamp(0.0, 1.0)).round() as u32;
    if filled > 0 {
        picture.area(Place { width: filled, ..place }, 3, fill);
    }
}

fn square(picture: &mut Picture, left: i32, top: i32, colour: Colour, state: ContainerState) {
    let place = Place::new(left, top, SQUARE as u32, SQUARE as u32);
    match state {
        ContainerState::Busy => picture.area(place, 3, colour),
        ContainerState::Idle => {
            picture.area(place, 3, colour.towards(CARD, 0.65));
            picture.outline(place, 3, colour);
        }
        ContainerState::Starting => picture.outline(place, 3, colour),
        ContainerState::Draining => {
            picture.outline(place, 3, colour.towards(CARD, 0.4));
            let inner = Place::new(left + 4, top + 4, SQUARE as u32 - 8, SQUARE as u32 - 8);
            picture.area(inner, 0, colour.towards(CARD, 0.4));
        }
    }
}

fn colour_of(function: FunctionId) -> Colour {
    FUNCTIONS[function.number() % FUNCTIONS.len()]
}

/// Left ends of the columns.
const NAME: i32 = MARGIN + 20;
const GIVEN: i32 = MARGIN + 200;
const WAITING: i32 = MARGIN + 372;
const SLO: i32 = MARGIN + 446;
const LATENCY: i32 = MARGIN + 660;
const BAR: u32 = 150;

struct Table<'a> {
    picture: &'a mut Picture,
    top: i32,
}

impl Table<'_> {
    fn text(&mut self, left: i32, colour: Colour, text: &str) {
        let left = if left == 0 { NAME } else { left };
        self.picture.text(left, self.top + 3, TextSize::Normal, colour, text);
    }

    fn headings(&mut self) {
        for (left, heading) in [
            (NAME, "function"),
            (GIVEN, "containers"),
            (WAITING, "waiting"),
            (SLO, "SLO"),
            (LATENCY, "p99, threshold"),
        ] {
            self.text(left, FAINT, heading);
        }
        self.top += ROW_HEIGHT;
        let rule = Place::new(MARGIN, self.top - 3, WIDTH - 2 * MARGIN as u32, 1);
        self.picture.area(rule, 0, LINE);
    }

    fn function(&mut self, tenants: &Tenants, tenant: &Tenant) {
        let platform = &tenants.platform;
        let swatch = Place::new(MARGIN, self.top + 3, SQUARE as u32, SQUARE as u32);
        self.picture.area(swatch, 3, colour_of(tenant.id));
        self.text(NAME, Picture::INK, &shorten(platform.name(tenant.id), 24));
        let given = platform.allocation(tenant.id);
        let mebibytes = given.memory.bytes() >> 20;
        let given = format!("{} x {} {mebibytes} MiB", given.replicas, given.cpu);
        self.text(GIVEN, Picture::INK, &given);
        let waiting = platform.waiting(tenant.id);
        let colour = if waiting > 0 { Picture::INK } else { LINE };
        self.text(WAITING, colour, &waiting.to_string());
        let latency = tenant.seen.latency;
        self.slo(platform.slo(tenant.id).threshold(), latency);
        self.top += ROW_HEIGHT;
    }

    fn chain(&mut self, name: &str, threshold: SimDuration, latency: Option<SimDuration>) {
        self.text(NAME, FAINT, &shorten(name, 58));
        self.slo(threshold, latency);
        self.top += ROW_HEIGHT;
    }

    fn slo(&mut self, threshold: SimDuration, latency: Option<SimDuration>) {
        let preserved = latency
            .map_or(1.0, |latency| threshold.seconds() / latency.seconds().max(f64::MIN_POSITIVE));
        let is_met = preserved >= 1.0;
        let colour = if is_met { MET } else { VIOLATED };
        bar_of(self.picture, Place::new(SLO, self.top + 5, BAR, 9), preserved, colour);
        let word = if is_met { "met" } else { "violated" };
        self.text(SLO + BAR as i32 + 8, colour, word);
        let measured = latency.map_or("-".to_owned(), in_words);
        self.text(LATENCY, Picture::INK, &format!("{measured:>8}, {}", in_words(threshold)));
    }
}

fn in_words(time: SimDuration) -> String {
    let seconds = time.seconds();
    if seconds >= 1e4 {
        "never".to_owned()
    } else if seconds >= 10.0 {
        format!("{seconds:.1} s")
    } else if seconds >= 1.0 {
        format!("{seconds:.2} s")
    } else {
        format!("{:.0} ms", seconds * 1e3)
    }
}

fn shorten(name: &str, most: usize) -> String {
    if name.chars().count() <= most {
        return name.to_owned();
    }
    name.chars().take(most - 2).chain("..".chars()).collect()
}

#[cfg(test)]
mod tests {
    use homeostat_env::Shape;

    use super::*;
    use crate::FaasConfig;

    fn played(config: FaasConfig, windows: usize) -> Tenants {
        let plan = config.build().unwrap();
        let mut tenants = Tenants::new(&plan, 7);
        for function in 0..config.functions {
            tenants.join(function % plan.profiles.len());
        }
        (0..windows).for_each(|_| tenants.advance());
        tenants
    }

    fn words(picture: &Picture) -> Vec<&str> {
        let text = |shape: &'_ Shape| matches!(shape, Shape::Text { .. });
        let shapes = picture.shapes.iter().filter(|shape| text(shape));
        shapes
            .map(|shape| match shape {
                Shape::Text { text, .. } => text.as_str(),
                _ => unreachable!("only text is left"),
            })
            .collect()
    }

    #[test]
    fn every_function_and_node_is_there_with_its_verdict() {
        let tenants = played(FaasConfig::default(), 3);
        let picture = draw(&tenants);
        let words = words(&picture);
        for number in 0..3 {
            assert!(words.contains(&format!("node {number}").as_str()), "{words:?}");
        }
        for id in tenants.ids() {
            assert!(words.contains(&tenants.platform.name(id)), "{words:?}");
        }
        let verdicts = words.iter().filter(|word| ["met", "violated"].contains(word)).count();
        assert_eq!(verdicts, 12);
        let met = tenants.present.iter().filter(|tenant| tenant.obs[0] >= 1.0).count();
        assert_eq!(words.iter().filter(|word| **word == "met").count(), met);
    }

    #[test]
    fn what_is_left_out_is_counted() {
        let check = |functions: usize, expect: Option<&str>| {
            let config = FaasConfig { functions, ..FaasConfig::default() };
            let picture = draw(&played(config, 1));
            let said = words(&picture).into_iter().find(|word| word.starts_with("and "));
            assert_eq!(said, expect);
        };
        check(24, None);
        check(25, Some("and 1 function more"));
        check(100, Some("and 76 functions and 1 node more"));
    }

    #[test]
    fn an_idle_platform_uses_nothing_and_not_minus_nothing() {
        let tenants = Tenants::new(&FaasConfig::default().build().unwrap(), 7);
        assert!(super::super::text_view::draw(&tenants).contains("cpu   0 %"));
        assert!(words(&draw(&tenants)).iter().any(|word| word.contains("cpu 0 %")));
        assert!(words(&draw(&tenants)).iter().all(|word| !word.contains("-0")));
    }

    #[test]
    fn a_square_stands_for_each_container() {
        let tenants = played(FaasConfig::default(), 1);
        let picture = draw(&tenants);
        let is_square = |place: &Place| place.width == SQUARE as u32 && place.top > HEADER;
        let mut places: Vec<(i32, i32)> = picture
            .shapes
            .iter()
            .filter_map(|shape| match shape {
                Shape::Area { place, .. } | Shape::Outline { place, .. } => Some(place),
                Shape::Text { .. } => None,
            })
            .filter(|place| is_square(place) && place.left != MARGIN)
            .map(|place| (place.top, place.left))
            .collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), tenants.platform.container_views().count());
    }

    #[test]
    fn its_size_stays_and_nothing_lies_outside_however_many_there_are() {
        for functions in [1, 12, 110] {
            let config = FaasConfig { functions, ..FaasConfig::default() };
            let tenants = played(config.clone(), 1);
            let (first, later) = (draw(&tenants), draw(&played(config, 4)));
            assert_eq!((first.width, first.height), (later.width, later.height));
            for shape in &later.shapes {
                let (left, top, right, bottom) = match shape {
                    Shape::Area { place, .. } | Shape::Outline { place, .. } => (
                        place.left,
                        place.top,
                        place.left + place.width as i32,
                        place.top + place.height as i32,
                    ),
                    Shape::Text { left, top, size, text, .. } => {
                        let (letter, line) = size.letter();
                        let width = letter as i32 * text.chars().count() as i32;
                        (*left, *top, left + width, top + line as i32)
                    }
                };
                assert!(left >= 0 && top >= 0, "{shape:?}");
                assert!(right <= later.width as i32 && bottom <= later.height as i32, "{shape:?}");
            }
        }
    }
}
