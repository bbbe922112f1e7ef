//! Blend modes: what colour comes of one above another, in linear or encoded light, and what becomes of their opacities.

/// Below this a divisor counts as 0.
const LEAST: f32 = 1e-6;

type Color = [f32; 3];
type Pixel = [f32; 4];

/// A blend mode.
#[derive(Clone, Copy, Debug)]
pub struct Blend {
    /// Its name.
    name: &'static str,
    formula: Formula,
    /// Whether it is computed with the levels that a screen is sent, and not in linear light.
    encoded: bool,
}

#[derive(Clone, Copy, Debug)]
enum Formula {
    /// Channel by channel: the one below, the one above.
    Channels(fn(f32, f32) -> f32),
    /// The whole colour.
    Colors(fn(Color, Color) -> Color),
}

use Formula::{Channels, Colors};

/// All of them, in the order in which people choose one.
const ALL: [Blend; 26] = [
    Blend::NORMAL,
    linear("multiply", |i, l| i * l),
    encoded("screen", |i, l| 1.0 - (1.0 - i) * (1.0 - l)),
    encoded("overlay", |i, l| match i < 0.5 {
        true => 2.0 * i * l,
        false => 1.0 - 2.0 * (1.0 - l) * (1.0 - i),
    }),
    linear("darken", f32::min),
    linear("lighten", f32::max),
    encoded("color-dodge", dodge),
    encoded("color-burn", burn),
    encoded("hard-light", |i, l| match l > 0.5 {
        true => (1.0 - (1.0 - i) * (1.0 - (l - 0.5) * 2.0)).min(1.0),
        false => (i * (l * 2.0)).min(1.0),
    }),
    encoded("soft-light", |i, l| {
        (1.0 - i) * (i * l) + i * (1.0 - (1.0 - i) * (1.0 - l))
    }),
    encoded("difference", |i, l| (i - l).abs()),
    encoded("exclusion", |i, l| 0.5 - 2.0 * (i - 0.5) * (l - 0.5)),
    linear("linear-dodge", |i, l| i + l),
    encoded("linear-burn", |i, l| i + l - 1.0),
    encoded("vivid-light", |i, l| match l <= 0.5 {
        true if i >= 1.0 => 1.0,
        true if 2.0 * l <= LEAST => 0.0,
        true => (1.0 - divided(1.0 - i, 2.0 * l)).max(0.0),
        false if i <= 0.0 => 0.0,
        false if 2.0 * (1.0 - l) <= LEAST => 1.0,
        false => divided(i, 2.0 * (1.0 - l)).min(1.0),
    }),
    encoded("pin-light", |i, l| match l > 0.5 {
        true => i.max(2.0 * (l - 0.5)),
        false => i.min(2.0 * l),
    }),
    encoded("linear-light", |i, l| i + 2.0 * l - 1.0),
    encoded("hard-mix", |i, l| if i + l < 1.0 { 0.0 } else { 1.0 }),
    linear("subtract", |i, l| (i - l).max(0.0)),
    linear("divide", |i, l| (i / l.max(LEAST)).clamp(0.0, 1.0)),
    encoded("grain-extract", |i, l| i - l + 0.5),
    encoded("grain-merge", |i, l| i + l - 0.5),
    whole("hue", true, hue),
    whole("saturation", true, saturation),
    whole("color", true, color),
    whole("luminosity", false, luminosity),
];

const fn linear(name: &'static str, formula: fn(f32, f32) -> f32) -> Blend {
    Blend {
        name,
        formula: Channels(formula),
        encoded: false,
    }
}

const fn encoded(name: &'static str, formula: fn(f32, f32) -> f32) -> Blend {
    Blend {
        name,
        formula: Channels(formula),
        encoded: true,
    }
}

const fn whole(name: &'static str, encoded: bool, formula: fn(Color, Color) -> Color) -> Blend {
    Blend {
        name,
        formula: Colors(formula),
        encoded,
    }
}

impl PartialEq for Blend {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Blend {
    /// The one above as it is. The only mode that covers also what is transparent below.
    pub const NORMAL: Self = linear("normal", |_, l| l);

    /// The names of all modes.
    #[must_use]
    pub fn names() -> [&'static str; ALL.len()] {
        ALL.map(|blend| blend.name)
    }

    /// The mode of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        ALL.into_iter().find(|blend| blend.name == name)
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What comes of a pixel above another, both in linear light.
    pub(super) fn over(&self, below: Pixel, above: Pixel, opacity: f32) -> Pixel {
        let [r, g, b, below_alpha] = below;
        let under = [r, g, b];
        let [r, g, b, above_alpha] = above;
        let over = [r, g, b];
        let alpha = above_alpha * opacity;
        let is_normal = *self == Self::NORMAL;
        // Nothing is added, and every other mode keeps to what is there.
        if alpha == 0.0 || (below_alpha == 0.0 && !is_normal) {
            return below;
        }
        let mixed = self.mixed(under, over);
        if !is_normal {
            let mixed = std::array::from_fn(|at| mixed[at] * alpha + under[at] * (1.0 - alpha));
            return with_alpha(mixed, below_alpha);
        }
        let together = alpha + (1.0 - alpha) * below_alpha;
        if below_alpha == 0.0 {
            return with_alpha(over, together);
        }
        let share = alpha / together;
        let color = std::array::from_fn(|at| {
            share * (below_alpha * (mixed[at] - over[at]) + over[at] - under[at]) + under[at]
        });
        with_alpha(color, together)
    }

    fn mixed(&self, below: Color, above: Color) -> Color {
        let apply = |i: Color, l: Color| match self.formula {
            Channels(formula) => std::array::from_fn(|at| formula(i[at], l[at])),
            Colors(formula) => formula(i, l),
        };
        match self.encoded {
            true => apply(below.map(to_encoded), above.map(to_encoded)).map(to_linear),
            false => apply(below, above),
        }
    }
}

fn with_alpha([r, g, b]: Color, alpha: f32) -> Pixel {
    [r, g, b, alpha]
}

/// Linear light of a level from 0 to 1 (sRGB).
pub(super) fn to_linear(level: f32) -> f32 {
    match level <= 0.04045 {
        true => level / 12.92,
        false => ((level.max(0.0) + 0.055) / 1.055).powf(2.4),
    }
}

/// The level of linear light (sRGB).
pub(super) fn to_encoded(light: f32) -> f32 {
    match light <= 0.003_130_8 {
        true => 12.92 * light,
        false => 1.055 * light.max(0.0).powf(1.0 / 2.4) - 0.055,
    }
}

fn divided(a: f32, b: f32) -> f32 {
    if b.abs() >= LEAST { a / b } else { 0.0 }
}

fn dodge(i: f32, l: f32) -> f32 {
    match () {
        () if i <= 0.0 => 0.0,
        () if 1.0 - l <= LEAST => 1.0,
        () => divided(i, 1.0 - l).min(1.0),
    }
}

fn burn(i: f32, l: f32) -> f32 {
    match () {
        () if i >= 1.0 => 1.0,
        () if l <= LEAST => 0.0,
        () => 1.0 - divided(1.0 - i, l).min(1.0),
    }
}

fn least(color: Color) -> f32 {
    color.into_iter().fold(f32::INFINITY, f32::min)
}

fn most(color: Color) -> f32 {
    color.into_iter().fold(f32::NEG_INFINITY, f32::max)
}

/// The hue of the one above, with the saturation and the brightness of the one below.
fn hue(i: Color, l: Color) -> Color {
    let spread = most(l) - least(l);
    if spread <= LEAST {
        return i;
    }
    let bright = most(i);
    let saturation = match bright {
        0.0 => 0.0,
        bright => (bright - least(i)) / bright,
    };
    let ratio = saturation * bright / spread;
    let offset = bright - most(l) * ratio;
    l.map(|part| part * ratio + offset)
}

/// The saturation of the one above, with the hue and the brightness of the one below.
fn saturation(i: Color, l: Color) -> Color {
    let bright = most(i);
    let spread = bright - least(i);
    if spread <= LEAST {
        return [bright; 3];
    }
    let above = most(l);
    let saturation = match above {
        0.0 => 0.0,
        above => (above - least(l)) / above,
    };
    let ratio = saturation * bright / spread;
    let offset = (1.0 - ratio) * bright;
    i.map(|part| part * ratio + offset)
}

/// Hue and saturation of the one above, with the lightness of the one below.
fn color(i: Color, l: Color) -> Color {
    let lightness = |color: Color| (least(color) + most(color)) / 2.0;
    let (below, above) = (lightness(i), lightness(l));
    if above.abs() <= LEAST || (1.0 - above).abs() <= LEAST {
        return [below; 3];
    }
    let (own, other) = (below.min(1.0 - below), above.min(1.0 - above));
    let ratio = own / other;
    let mut offset = if below > 0.5 { 1.0 - 2.0 * own } else { 0.0 };
    offset += if above > 0.5 { 2.0 * own - ratio } else { 0.0 };
    l.map(|part| part * ratio + offset)
}

/// The brightness of the one above, with the colour of the one below.
fn luminosity(i: Color, l: Color) -> Color {
    let bright = |[r, g, b]: Color| r * 0.222_488_4 + g * 0.716_903_7 + b * 0.060_607_91;
    let (below, above) = (bright(i), bright(l));
    match below <= LEAST {
        true => [above; 3],
        false => i.map(|part| part * (above / below)),
    }
}
