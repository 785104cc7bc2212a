//! Charts as SVG: the same data, the same text. No script, no style, no reference to anything outside.
//!
//! Invariant: what comes from the program stands in the text escaped, and colours are checked.

mod data;

use super::{Args, Builtin, Cost, Ctx};
use crate::vm::render::{display, type_name};
use crate::vm::trap::{Fault, raised};
use crate::vm::value::{Map, Value};
use data::Data;
use std::fmt::Write as _;

pub(super) const TABLE: &[Builtin] = &[
    Builtin::new("chart_svg", &["kind", "data", "options"], 2, |c, a| Ok(Value::string(drawn(c, a)?)))
        .cost(Cost::Own),
    Builtin::new("chart", &["kind", "data", "options"], 2, |c, a| {
        let svg = drawn(c, a)?;
        Ok(Value::record([("node", Value::text("chart")), ("kind", a.take(0)), ("svg", Value::string(svg))]))
    })
    .cost(Cost::Own),
];

const KEYS: [&str; 12] = [
    "title", "width", "height", "colors", "labels", "x", "y", "x_label", "y_label", "legend", "bins",
    "stacked",
];
/// Colours that are told apart, also by people who see red and green alike (Okabe and Ito).
const COLORS: [&str; 8] =
    ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#555555"];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Bar,
    Line,
    Area,
    Scatter,
    Pie,
    Donut,
    Histogram,
}

struct Frame {
    width: f64,
    height: f64,
    title: Option<String>,
    x_label: Option<String>,
    y_label: Option<String>,
    colors: Vec<String>,
    legend: bool,
    stacked: bool,
}

fn drawn(ctx: &mut Ctx<'_>, args: &Args<'_>) -> Result<String, Fault> {
    let kind = match args.text(0)? {
        "bar" => Kind::Bar,
        "line" => Kind::Line,
        "area" => Kind::Area,
        "scatter" => Kind::Scatter,
        "pie" => Kind::Pie,
        "donut" => Kind::Donut,
        "histogram" => Kind::Histogram,
        other => {
            return Err(raised(format!(
                "chart_svg: unknown kind '{other}', one of bar, line, area, scatter, pie, donut, histogram"
            )));
        }
    };
    let options = if args.optional(2).is_some() { Some(args.map(2)?) } else { None };
    let mut data = data::read(args, options, matches!(kind, Kind::Scatter | Kind::Line | Kind::Area))?;
    ctx.charge(data.series.iter().map(|s| s.points.len() as u64 * 8).sum::<u64>() + 100)?;
    if kind == Kind::Histogram {
        data = binned(&data, options)?;
    }
    let round = matches!(kind, Kind::Pie | Kind::Donut);
    let shown = if round { data.series[0].points.len() } else { data.series.len() };
    let frame = frame(options, shown)?;
    let mut out = String::new();
    let (w, h) = (n(frame.width), n(frame.height));
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{w}\" height=\"{h}\" viewBox=\"0 0 {w} {h}\" \
         font-family=\"sans-serif\" font-size=\"12\"><rect width=\"{w}\" height=\"{h}\" fill=\"#ffffff\"/>"
    );
    if let Some(title) = &frame.title {
        text(&mut out, frame.width / 2.0, 22.0, "middle", 16, title);
    }
    if round {
        slices(&mut out, &data, &frame, kind)?;
    } else {
        plot(&mut out, &data, &frame, kind);
    }
    out.push_str("</svg>");
    ctx.reserve(out.len())?;
    Ok(out)
}

fn frame(options: Option<&Map>, shown: usize) -> Result<Frame, Fault> {
    let mut frame = Frame {
        width: 640.0,
        height: 400.0,
        title: None,
        x_label: None,
        y_label: None,
        colors: COLORS.iter().map(|c| (*c).to_owned()).collect(),
        legend: true,
        stacked: false,
    };
    let mut own = false;
    for (key, v) in options.into_iter().flat_map(Map::entries).filter(|(_, v)| !v.is_nothing()) {
        let key = key.as_str();
        let side = || match v {
            Value::Int(n) if (100..=10_000).contains(n) => Ok(*n as f64),
            _ => Err(raised(format!("chart_svg: {key} must be an integer from 100 to 10000"))),
        };
        match key {
            "width" => frame.width = side()?,
            "height" => frame.height = side()?,
            "title" => frame.title = Some(display(v)),
            "x_label" => frame.x_label = Some(display(v)),
            "y_label" => frame.y_label = Some(display(v)),
            "legend" => frame.legend = crate::vm::ops::truthy(v),
            "stacked" => frame.stacked = crate::vm::ops::truthy(v),
            "colors" => {
                own = true;
                let Some(list) = v.as_list().filter(|l| !l.is_empty()) else {
                    return Err(raised(format!("chart_svg: colors must be a list, got {}", type_name(v))));
                };
                frame.colors = list.iter().map(color).collect::<Result<_, _>>()?;
            }
            key if KEYS.contains(&key) => {}
            key => {
                return Err(raised(format!("chart_svg: unknown option '{key}', one of {}", KEYS.join(", "))));
            }
        }
    }
    if shown > COLORS.len() && !own {
        return Err(raised(format!(
            "chart_svg: {shown} series need `colors` of their own — more than {} are not told apart",
            COLORS.len()
        )));
    }
    Ok(frame)
}

/// `#rgb`, `#rrggbb`, `#rrggbbaa` or a plain name: nothing that ends the attribute.
fn color(v: &Value) -> Result<String, Fault> {
    let well = v.as_text().filter(|t| match t.strip_prefix('#') {
        Some(digits) => {
            matches!(digits.len(), 3 | 4 | 6 | 8) && digits.bytes().all(|b| b.is_ascii_hexdigit())
        }
        None => !t.is_empty() && t.len() <= 30 && t.bytes().all(|b| b.is_ascii_alphabetic()),
    });
    match well {
        Some(t) => Ok(t.to_owned()),
        None => Err(raised(format!(
            "chart_svg: {} is not a color (#rrggbb or a name)",
            crate::vm::render::inside(v).chars().take(60).collect::<String>()
        ))),
    }
}

fn binned(data: &Data, options: Option<&Map>) -> Result<Data, Fault> {
    let bins = match options.and_then(|o| o.get("bins")) {
        None | Some(Value::Nothing) => 10,
        Some(Value::Int(n)) if (1..=1000).contains(n) => *n as usize,
        Some(_) => return Err(raised("chart_svg: bins must be an integer from 1 to 1000")),
    };
    let values: Vec<f64> = data.series[0].points.iter().filter_map(|p| p.1).collect();
    let (low, high) = span(values.iter().copied());
    let (low, high) = if low == high { (low - 0.5, high + 0.5) } else { (low, high) };
    let mut counts = vec![0u32; bins];
    for v in values {
        counts[(((v - low) / (high - low) * bins as f64) as usize).min(bins - 1)] += 1;
    }
    let labels = (0..bins).map(|i| short(low + (high - low) * i as f64 / bins as f64)).collect();
    let points = counts.iter().enumerate().map(|(i, c)| (i as f64, Some(f64::from(*c)))).collect();
    Ok(Data { series: vec![data::Series { name: String::new(), points }], labels })
}

/// A coordinate: two places at most.
fn n(f: f64) -> String {
    let text = format!("{f:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// A number at an axis.
fn short(f: f64) -> String {
    if f != 0.0 && (f.abs() >= 1e9 || f.abs() < 1e-4) {
        return format!("{f:.2e}");
    }
    let text = format!("{f:.4}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars().take(200) {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

fn text(out: &mut String, x: f64, y: f64, anchor: &str, size: u32, words: &str) {
    let _ = write!(
        out,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"{anchor}\" font-size=\"{size}\" fill=\"#333333\">{}</text>",
        n(x),
        n(y),
        escaped(words)
    );
}

fn line(out: &mut String, a: (f64, f64), b: (f64, f64), color: &str) {
    let _ = write!(
        out,
        "<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" stroke=\"{color}\"/>",
        n(a.0),
        n(a.1),
        n(b.0),
        n(b.1)
    );
}

fn span(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)))
}

/// Round steps that cover a span, some five of them.
fn ticks(low: f64, high: f64) -> Vec<f64> {
    let width = high - low;
    if !(width > 0.0 && width.is_finite()) {
        return vec![low];
    }
    let raw = width / 5.0;
    let unit = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * unit).find(|s| *s >= raw).unwrap_or(raw);
    let first = (low / step).ceil();
    (0..12).map(|i| (first + f64::from(i)) * step).take_while(|t| *t <= high + step * 1e-9).collect()
}

/// Where values are drawn.
struct Plane {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    x: (f64, f64),
    y: (f64, f64),
}

impl Plane {
    fn at_x(&self, v: f64) -> f64 {
        let width = (self.x.1 - self.x.0).max(f64::MIN_POSITIVE);
        self.left + ((v - self.x.0) / width).clamp(0.0, 1.0) * (self.right - self.left)
    }

    fn at_y(&self, v: f64) -> f64 {
        let height = (self.y.1 - self.y.0).max(f64::MIN_POSITIVE);
        self.bottom - ((v - self.y.0) / height).clamp(0.0, 1.0) * (self.bottom - self.top)
    }
}

fn plot(out: &mut String, data: &Data, frame: &Frame, kind: Kind) {
    let bars = matches!(kind, Kind::Bar | Kind::Histogram);
    let slots = data.series.iter().map(|s| s.points.len()).max().unwrap_or(0).max(1);
    let values = data.series.iter().flat_map(|s| s.points.iter().filter_map(|p| p.1));
    let (mut low, mut high) = span(values);
    if frame.stacked {
        for i in 0..slots {
            let column = || data.series.iter().filter_map(|s| s.points.get(i).and_then(|p| p.1));
            low = low.min(column().filter(|v| *v < 0.0).sum());
            high = high.max(column().filter(|v| *v > 0.0).sum());
        }
    }
    if bars || kind == Kind::Area {
        low = low.min(0.0);
        high = high.max(0.0);
    }
    if low == high {
        low -= 0.5;
        high += 0.5;
    }
    let named: Vec<usize> = (0..data.series.len()).filter(|i| !data.series[*i].name.is_empty()).collect();
    let legend = frame.legend && !named.is_empty();
    let x = if bars || !data.labels.is_empty() {
        let edge = if bars { 0.5 } else { 0.0 };
        (-edge, slots as f64 - 1.0 + edge)
    } else {
        span(data.series.iter().flat_map(|s| s.points.iter().map(|p| p.0)))
    };
    let x = if x.0 == x.1 { (x.0 - 0.5, x.1 + 0.5) } else { x };
    let plane = Plane {
        left: if frame.y_label.is_some() { 78.0 } else { 60.0 },
        right: frame.width - 20.0,
        top: if frame.title.is_some() { 40.0 } else { 20.0 } + if legend { 20.0 } else { 0.0 },
        bottom: frame.height - if frame.x_label.is_some() { 56.0 } else { 36.0 },
        x,
        y: (low, high),
    };
    axes(out, data, frame, &plane, slots);
    for (i, series) in data.series.iter().enumerate() {
        let color = &frame.colors[i % frame.colors.len()];
        match kind {
            Kind::Bar | Kind::Histogram => columns(out, data, frame, &plane, i, color),
            Kind::Scatter => {
                for (x, y) in series.points.iter().filter_map(|p| Some((p.0, p.1?))) {
                    let _ = write!(
                        out,
                        "<circle cx=\"{}\" cy=\"{}\" r=\"3\" fill=\"{color}\"/>",
                        n(plane.at_x(x)),
                        n(plane.at_y(y))
                    );
                }
            }
            Kind::Line | Kind::Area | Kind::Pie | Kind::Donut => {
                // A missing value breaks the line.
                for piece in series.points.split(|p| p.1.is_none()).filter(|p| !p.is_empty()) {
                    stroke(out, &plane, piece, color, kind == Kind::Area);
                }
            }
        }
    }
    if legend {
        let mut x = plane.left;
        for i in named {
            let name = &data.series[i].name;
            let color = &frame.colors[i % frame.colors.len()];
            let y = plane.top - 16.0;
            let _ = write!(
                out,
                "<rect x=\"{}\" y=\"{}\" width=\"10\" height=\"10\" fill=\"{color}\"/>",
                n(x),
                n(y)
            );
            text(out, x + 14.0, y + 9.0, "start", 12, name);
            x += 30.0 + 7.0 * name.chars().count().min(200) as f64;
        }
    }
}

fn axes(out: &mut String, data: &Data, frame: &Frame, plane: &Plane, slots: usize) {
    for tick in ticks(plane.y.0, plane.y.1) {
        let y = plane.at_y(tick);
        line(out, (plane.left, y), (plane.right, y), "#dddddd");
        text(out, plane.left - 6.0, y + 4.0, "end", 11, &short(tick));
    }
    line(out, (plane.left, plane.bottom), (plane.right, plane.bottom), "#333333");
    line(out, (plane.left, plane.top), (plane.left, plane.bottom), "#333333");
    if data.labels.is_empty() {
        for tick in ticks(plane.x.0, plane.x.1) {
            text(out, plane.at_x(tick), plane.bottom + 16.0, "middle", 11, &short(tick));
        }
    } else {
        // No more names than fit beside one another.
        let each = (slots as f64 * 60.0 / (plane.right - plane.left)).ceil().max(1.0) as usize;
        for (i, label) in data.labels.iter().take(slots).enumerate().step_by(each) {
            text(out, plane.at_x(i as f64), plane.bottom + 16.0, "middle", 11, label);
        }
    }
    if let Some(label) = &frame.x_label {
        text(out, (plane.left + plane.right) / 2.0, frame.height - 12.0, "middle", 12, label);
    }
    if let Some(label) = &frame.y_label {
        let (x, y) = (16.0, (plane.top + plane.bottom) / 2.0);
        let _ = write!(
            out,
            "<text x=\"{x}\" y=\"{}\" text-anchor=\"middle\" transform=\"rotate(-90 {x} {})\" fill=\"#333333\">{}</text>",
            n(y),
            n(y),
            escaped(label)
        );
    }
}

fn columns(out: &mut String, data: &Data, frame: &Frame, plane: &Plane, which: usize, color: &str) {
    let slot = plane.at_x(1.0) - plane.at_x(0.0);
    let slot = if slot > 0.0 { slot } else { plane.right - plane.left };
    let beside = if frame.stacked { 1 } else { data.series.len() };
    let width = slot * 0.8 / beside as f64;
    for (i, value) in data.series[which].points.iter().enumerate().filter_map(|(i, p)| Some((i, p.1?))) {
        let base: f64 = if frame.stacked {
            data.series[..which]
                .iter()
                .filter_map(|s| s.points.get(i).and_then(|p| p.1))
                .filter(|v| (*v < 0.0) == (value < 0.0))
                .sum()
        } else {
            0.0
        };
        let (from, to) = (plane.at_y(base), plane.at_y(base + value));
        let shift = if frame.stacked { 0 } else { which };
        let x = plane.at_x(i as f64) - slot * 0.4 + width * shift as f64;
        let _ = write!(
            out,
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{color}\"/>",
            n(x),
            n(from.min(to)),
            n(width),
            n((from - to).abs())
        );
    }
}

fn stroke(out: &mut String, plane: &Plane, piece: &[(f64, Option<f64>)], color: &str, filled: bool) {
    let mut points = String::new();
    for (x, y) in piece.iter().filter_map(|p| Some((p.0, p.1?))) {
        let _ = write!(points, "{},{} ", n(plane.at_x(x)), n(plane.at_y(y)));
    }
    let points = points.trim_end();
    if filled && let (Some(first), Some(last)) = (piece.first(), piece.last()) {
        let zero = n(plane.at_y(0.0));
        let _ = write!(
            out,
            "<polygon points=\"{},{zero} {points} {},{zero}\" fill=\"{color}\" fill-opacity=\"0.3\"/>",
            n(plane.at_x(first.0)),
            n(plane.at_x(last.0))
        );
    }
    let _ =
        write!(out, "<polyline points=\"{points}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"/>");
}

fn slices(out: &mut String, data: &Data, frame: &Frame, kind: Kind) -> Result<(), Fault> {
    let values: Vec<f64> = data.series[0].points.iter().map(|p| p.1.unwrap_or(0.0)).collect();
    let total: f64 = values.iter().sum();
    if values.iter().any(|v| *v < 0.0) || !(total > 0.0 && total.is_finite()) {
        return Err(raised("chart_svg: the parts of a pie must not be negative, and not all 0"));
    }
    let top = if frame.title.is_some() { 40.0 } else { 20.0 };
    let radius = ((frame.height - top - 20.0) / 2.0).min(frame.width / 3.0).max(10.0);
    let (cx, cy) = (radius + 30.0, top + (frame.height - top - 20.0) / 2.0);
    let point = |share: f64, r: f64| {
        let angle = share * std::f64::consts::TAU;
        format!("{},{}", n(cx + r * libm::sin(angle)), n(cy - r * libm::cos(angle)))
    };
    let hole = if kind == Kind::Donut { radius * 0.55 } else { 0.0 };
    let mut start = 0.0;
    for (i, value) in values.iter().enumerate() {
        let color = &frame.colors[i % frame.colors.len()];
        let end = start + value / total;
        // A whole circle has no two different ends; it is drawn a hair short.
        let stop = if end - start > 0.9999 { start + 0.9999 } else { end };
        let large = u8::from(stop - start > 0.5);
        let r = n(radius);
        if hole > 0.0 {
            let h = n(hole);
            let _ = write!(
                out,
                "<path d=\"M{} A{r},{r} 0 {large} 1 {} L{} A{h},{h} 0 {large} 0 {} Z\" fill=\"{color}\" stroke=\"#ffffff\"/>",
                point(start, radius),
                point(stop, radius),
                point(stop, hole),
                point(start, hole)
            );
        } else {
            let _ = write!(
                out,
                "<path d=\"M{},{} L{} A{r},{r} 0 {large} 1 {} Z\" fill=\"{color}\" stroke=\"#ffffff\"/>",
                n(cx),
                n(cy),
                point(start, radius),
                point(stop, radius)
            );
        }
        if frame.legend {
            let y = top + 10.0 + 18.0 * i as f64;
            let x = 2.0 * radius + 60.0;
            let _ = write!(
                out,
                "<rect x=\"{}\" y=\"{}\" width=\"10\" height=\"10\" fill=\"{color}\"/>",
                n(x),
                n(y)
            );
            let name = data.labels.get(i).cloned().unwrap_or_else(|| (i + 1).to_string());
            text(
                out,
                x + 14.0,
                y + 9.0,
                "start",
                12,
                &format!("{name} ({}%)", short((value / total * 1000.0).round() / 10.0)),
            );
        }
        start = end;
    }
    Ok(())
}
