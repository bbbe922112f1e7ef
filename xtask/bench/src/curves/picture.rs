//! A picture of an axis as SVG: a panel for each figure, side by side, each with a scale of its own that begins at 0.
//!
//! Sizes lie on a logarithmic scale. Colours follow the reader's choice of light or dark, on a ground of their own.

use std::fmt::Write;

use crate::report::rounded;

/// All panels of an axis.
#[derive(Debug)]
pub(super) struct Picture {
    /// What is counted along the axis.
    pub(super) along: &'static str,
    /// What it was measured on.
    pub(super) note: String,
    pub(super) panels: Vec<Panel>,
}

/// One figure.
#[derive(Debug)]
pub(super) struct Panel {
    pub(super) title: &'static str,
    pub(super) unit: &'static str,
    /// The bound of its values.
    pub(super) gate: Option<f64>,
    /// Sizes and values, the smallest size first.
    pub(super) points: Vec<(u64, f64)>,
}

/// Width and height of a panel, and of the plot in it.
const PANEL: (f64, f64) = (300.0, 250.0);
const PLOT: (f64, f64) = (224.0, 160.0);
/// The upper left corner of the plot in its panel.
const CORNER: (f64, f64) = (56.0, 44.0);
/// How far the first and the last point are from the sides of the plot.
const INSET: f64 = 18.0;
/// Room for the heading above the panels, and for the note below.
const HEADING: f64 = 36.0;
const NOTE: f64 = 28.0;
/// Lines across a plot, at most.
const LINES: f64 = 5.0;
/// The scale goes so far beyond the largest value.
const SPARE: f64 = 1.12;
/// A value below this share of the scale is written above its point, where the axis does not cross it.
const LOW: f64 = 0.2;
/// The height of a value, and how far what is written on a gate reaches above it.
const TEXT: f64 = 9.0;
const GATE_ROOM: f64 = 15.0;

const STYLE: &str = "svg{--ground:#fff;--ink:#1f2328;--faint:#59636e;--rule:#d8dee4;--line:#0969da;--gate:#bc4c00;\
    font:12px system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;fill:var(--ink)}\
    @media(prefers-color-scheme:dark){svg{--ground:#0d1117;--ink:#f0f6fc;--faint:#9198a1;--rule:#2f353d;--line:#58a6ff;--gate:#f0883e}}\
    .ground{fill:var(--ground)}.heading{font-size:16px;font-weight:600}.title{font-size:13px;font-weight:600}\
    .faint{fill:var(--faint);font-size:11px}.rule{stroke:var(--rule)}.line{fill:none;stroke:var(--line);stroke-width:2}\
    .point{fill:var(--line)}.value{stroke:var(--ground);stroke-width:4px;stroke-linejoin:round;paint-order:stroke}\
    .gate{stroke:var(--gate);stroke-width:1.5;stroke-dasharray:5 4}.bound{fill:var(--gate);font-size:11px}\
    .middle{text-anchor:middle}.end{text-anchor:end}";

impl Picture {
    /// The picture as a document.
    pub(super) fn svg(&self) -> String {
        let width = PANEL.0 * self.panels.len() as f64;
        let height = HEADING + PANEL.1 + NOTE;
        let heading = escaped(&format!("How cost grows with {}", self.along));
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
             role=\"img\" aria-labelledby=\"heading\">\n<title id=\"heading\">{heading}</title>\n<style>{STYLE}</style>\n\
             <rect class=\"ground\" width=\"{width}\" height=\"{height}\"/>\n"
        );
        text(&mut svg, (16.0, 26.0), "heading", &heading);
        for (number, panel) in (0_u32..).zip(&self.panels) {
            let left = PANEL.0 * f64::from(number);
            write(
                &mut svg,
                format_args!("<g transform=\"translate({left} {HEADING})\">\n"),
            );
            panel.draw(&mut svg, self.along);
            svg.push_str("</g>\n");
        }
        let note = format!("Measured on {}", self.note);
        text(&mut svg, (16.0, height - 12.0), "faint", &escaped(&note));
        svg.push_str("</svg>\n");
        svg
    }
}

impl Panel {
    fn draw(&self, svg: &mut String, along: &str) {
        let values = self.points.iter().map(|(_, value)| *value);
        let largest = values.chain(self.gate).fold(0.0, f64::max);
        let step = step(largest * SPARE);
        let top = (largest * SPARE / step).ceil() * step;
        let (left, bottom) = (CORNER.0, CORNER.1 + PLOT.1);
        let (right, middle) = (left + PLOT.0, left + PLOT.0 / 2.0);
        let height = |value: f64| bottom - value / top * PLOT.1;
        let unit = match self.unit {
            "us" => "µs",
            unit => unit,
        };
        text(svg, (16.0, 14.0), "title", &escaped(self.title));
        text(svg, (16.0, 32.0), "faint", &escaped(unit));
        let lines = (0_u32..).map(|number| step * f64::from(number));
        // A half of a step more, so that rounding does not take the uppermost away.
        for value in lines.take_while(|value| *value < top + step / 2.0) {
            let y = height(value);
            rule(svg, "rule", (left, right), y);
            text(
                svg,
                (left - 8.0, y + 4.0),
                "faint end",
                &rounded(value).to_string(),
            );
        }
        if let Some(gate) = self.gate {
            let y = height(gate);
            rule(svg, "gate", (left, right), y);
            let bound = format!("gate {}", rounded(gate));
            text(svg, (right, y - 5.0), "bound end", &bound);
        }
        let places = places(&self.points);
        let at = places.iter().zip(&self.points);
        let at = at.map(|(place, (size, value))| {
            let x = left + INSET + place * (PLOT.0 - 2.0 * INSET);
            (x, height(*value), *size, *value)
        });
        let points: Vec<(f64, f64, u64, f64)> = at.collect();
        let line = points.iter().map(|(x, y, ..)| format!("{x:.1},{y:.1}"));
        let line = line.collect::<Vec<_>>().join(" ");
        write(
            svg,
            format_args!("<polyline class=\"line\" points=\"{line}\"/>\n"),
        );
        for (x, y, size, value) in points {
            write(
                svg,
                format_args!("<circle class=\"point\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"/>\n"),
            );
            let (above, below) = (y - 11.0, y + 20.0);
            // Neither the gate nor what is written on it is written over.
            let is_free = |line: f64| {
                let is_taken = |gate| line + 2.0 > gate - GATE_ROOM && line - TEXT < gate + 2.0;
                !self.gate.map(height).is_some_and(is_taken)
            };
            let beside = match value < LOW * top || (!is_free(below) && is_free(above)) {
                true => above,
                false => below,
            };
            text(
                svg,
                (x, beside),
                "value middle",
                &rounded(value).to_string(),
            );
            text(svg, (x, bottom + 18.0), "faint middle", &short(size));
        }
        text(
            svg,
            (middle, bottom + 36.0),
            "faint middle",
            &escaped(along),
        );
    }
}

/// Where the sizes lie between the first (0) and the last (1); a size of 0 lies a decade before the next one.
fn places(points: &[(u64, f64)]) -> Vec<f64> {
    let sizes = || points.iter().map(|(size, _)| *size);
    let least = sizes().find(|size| *size > 0).unwrap_or(1) as f64;
    let logarithms = sizes().map(|size| match size {
        0 => least.log10() - 1.0,
        size => (size as f64).log10(),
    });
    let logarithms: Vec<f64> = logarithms.collect();
    let (Some(first), Some(last)) = (logarithms.first(), logarithms.last()) else {
        return Vec::new();
    };
    let place = |logarithm: &f64| match last > first {
        true => (logarithm - first) / (last - first),
        false => 0.5,
    };
    logarithms.iter().map(place).collect()
}

/// The distance of lines across a plot that reaches to `top`: 1, 2 or 5 times a power of ten.
fn step(top: f64) -> f64 {
    if top <= 0.0 {
        return 1.0;
    }
    let least = top / LINES;
    let power = 10_f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 5.0].map(|times| times * power);
    let found = steps.into_iter().find(|step| *step >= least);
    found.unwrap_or(10.0 * power)
}

/// A size as the axis has it: 10, 3k, 1M.
fn short(size: u64) -> String {
    match size {
        millions if millions >= 1_000_000 && millions % 100_000 == 0 => {
            format!("{}M", millions as f64 / 1e6)
        }
        thousands if thousands >= 1_000 && thousands % 100 == 0 => {
            format!("{}k", thousands as f64 / 1e3)
        }
        few => few.to_string(),
    }
}

fn text(svg: &mut String, (x, y): (f64, f64), class: &str, escaped: &str) {
    write(
        svg,
        format_args!("<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{escaped}</text>\n"),
    );
}

fn rule(svg: &mut String, class: &str, (left, right): (f64, f64), y: f64) {
    write(
        svg,
        format_args!(
            "<line class=\"{class}\" x1=\"{left}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\"/>\n"
        ),
    );
}

fn write(svg: &mut String, piece: std::fmt::Arguments<'_>) {
    svg.write_fmt(piece)
        .expect("a string takes all that is written");
}

/// A text within an element.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use quick_xml::events::{BytesStart, Event};

    fn picture() -> Picture {
        Picture {
            along: "jobs < & >",
            note: "<b>\"AMD\" & 'co'</b>".to_owned(),
            panels: vec![Panel {
                title: "a look",
                unit: "us",
                gate: Some(60.0),
                points: vec![(0, 0.0), (1_000, 50.0), (100_000, 80.0)],
            }],
        }
    }

    /// Every element that the document has, and all its text; the parser refuses what is no XML.
    fn parsed(svg: &str) -> (Vec<BytesStart<'static>>, String) {
        let mut reader = quick_xml::Reader::from_str(svg);
        reader.config_mut().check_end_names = true;
        let (mut elements, mut text) = (Vec::new(), String::new());
        let mut open = 0;
        loop {
            match reader.read_event().expect("XML") {
                Event::Start(element) => {
                    open += 1;
                    elements.push(element.into_owned());
                }
                Event::Empty(element) => elements.push(element.into_owned()),
                Event::End(_) => open -= 1,
                Event::Text(piece) => text.push_str(&piece.decode().expect("UTF-8")),
                Event::GeneralRef(name) => {
                    let name = name.decode().expect("UTF-8");
                    let entity = quick_xml::escape::resolve_predefined_entity(&name);
                    text.push_str(entity.expect("an entity that XML has"));
                }
                Event::Eof => break,
                other @ (Event::CData(_)
                | Event::Comment(_)
                | Event::Decl(_)
                | Event::DocType(_)
                | Event::PI(_)) => panic!("{other:?} has no place in a picture"),
            }
        }
        assert_eq!(open, 0, "every element is closed");
        (elements, text)
    }

    fn attribute(element: &BytesStart<'_>, name: &str) -> String {
        let attribute = element.try_get_attribute(name).expect("attributes");
        let attribute = attribute.expect("the attribute");
        String::from_utf8(attribute.value.into_owned()).expect("UTF-8")
    }

    #[test]
    fn a_picture_is_xml_without_a_script_and_its_texts_are_escaped() {
        let (elements, text) = parsed(&picture().svg());
        let names: Vec<_> = elements.iter().map(|element| element.name()).collect();
        assert!(names.iter().all(|name| name.as_ref() != b"script"));
        assert_eq!(names.iter().filter(|name| name.as_ref() == b"b").count(), 0);
        assert!(text.contains("How cost grows with jobs < & >"));
        assert!(text.contains("Measured on <b>\"AMD\" & 'co'</b>"));
        assert!(text.contains("µs"));
    }

    #[test]
    fn points_lie_on_a_logarithmic_axis_and_a_linear_scale_from_zero() {
        let (elements, _) = parsed(&picture().svg());
        let of = |class: &str| {
            let mut found = elements.iter().filter(|element| {
                element.try_get_attribute("class").is_ok_and(|value| {
                    value.is_some_and(|value| value.value.as_ref() == class.as_bytes())
                })
            });
            std::iter::from_fn(move || found.next()).collect::<Vec<_>>()
        };
        let number = |element: &BytesStart<'_>, name| -> f64 {
            attribute(element, name).parse().expect("a number")
        };
        let points = of("point");
        let at: Vec<(f64, f64)> = points
            .iter()
            .map(|point| (number(point, "cx"), number(point, "cy")))
            .collect();
        // The scale goes to 100: 80 and what is spare, in steps of 20. Zero is a decade before 1,000, and 100,000 two after it.
        let width = PLOT.0 - 2.0 * INSET;
        let bottom = CORNER.1 + PLOT.1;
        let expected = [
            (CORNER.0 + INSET, bottom),
            (CORNER.0 + INSET + width / 3.0, bottom - 0.5 * PLOT.1),
            (CORNER.0 + INSET + width, bottom - 0.8 * PLOT.1),
        ];
        assert_eq!(at.len(), expected.len());
        for (at, expected) in at.iter().zip(expected) {
            assert!((at.0 - expected.0).abs() < 0.1, "{at:?} {expected:?}");
            assert!((at.1 - expected.1).abs() < 0.1, "{at:?} {expected:?}");
        }
        let gates = of("gate");
        assert_eq!(gates.len(), 1);
        assert!((number(gates[0], "y1") - (bottom - 0.6 * PLOT.1)).abs() < 0.1);
        let line = of("line");
        assert_eq!(attribute(line[0], "points").split(' ').count(), 3);
        // Zero has no room below it, and below 80 is the gate with its name.
        let values = of("value middle");
        let sides = values
            .iter()
            .zip(&at)
            .map(|(value, (_, y))| number(value, "y") < *y);
        assert_eq!(sides.collect::<Vec<_>>(), [true, false, true]);
    }

    #[test]
    fn a_lone_point_lies_in_the_middle_and_zeros_have_a_scale() {
        assert_eq!(places(&[(10, 1.0)]), [0.5]);
        assert_eq!(places(&[]), Vec::<f64>::new());
        assert_eq!((step(0.0), step(112.0), step(1.0)), (1.0, 50.0, 0.2));
    }

    #[test]
    fn sizes_are_short() {
        let sizes = [0, 10, 1_000, 9_000, 1_234, 100_000, 1_000_000].map(short);
        assert_eq!(sizes, ["0", "10", "1k", "9k", "1234", "100k", "1M"]);
    }
}
