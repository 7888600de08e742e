//! A picture as PDF, with the glyphs that it uses, so that publishers take it.

use super::canvas::{Anchor, Canvas, Mark};
use super::font::BYTES;
use pdf_writer::types::{CidFontType, FontFlags, SystemInfo, UnicodeCmap};
use pdf_writer::writers::ExtGraphicsState;
use pdf_writer::{Content, Finish, Name, Pdf, Rect, Ref, Str};
use std::collections::BTreeMap;
use subsetter::GlyphRemapper;

const FONT: Name = Name(b"F");
/// A subset has six letters in front of its name (ISO 32000-1 section 9.6.4).
const FONT_NAME: Name = Name(b"WEIRAA+LiberationSans");
const SYSTEM: SystemInfo = SystemInfo { registry: Str(b"Adobe"), ordering: Str(b"Identity"), supplement: 0 };

impl Canvas {
    /// As PDF with one page of the size of the picture. The same picture gives the same bytes.
    pub fn pdf(&self) -> Vec<u8> {
        let [catalog, pages, page, content, type0, cid, descriptor, file, unicode] =
            std::array::from_fn(|i| Ref::new(i as i32 + 1));
        let mut glyphs = Glyphs::default();
        let drawn = self.content(&mut glyphs);
        let mut pdf = Pdf::new();
        pdf.catalog(catalog).pages(pages);
        pdf.pages(pages).kids([page]).count(1);
        let mut sheet = pdf.page(page);
        sheet
            .media_box(Rect::new(0.0, 0.0, self.width as f32, self.height as f32))
            .parent(pages)
            .contents(content);
        let mut resources = sheet.resources();
        resources.fonts().pair(FONT, type0);
        if !glyphs.opacities.is_empty() {
            let mut states = resources.ext_g_states();
            for (number, opacity) in glyphs.opacities.iter().enumerate() {
                let name = format!("G{number}");
                let mut state = states.insert(Name(name.as_bytes())).start::<ExtGraphicsState>();
                state.non_stroking_alpha(*opacity as f32);
            }
        }
        resources.finish();
        sheet.finish();
        pdf.stream(content, &drawn);
        pdf.type0_font(type0)
            .base_font(FONT_NAME)
            .encoding_predefined(Name(b"Identity-H"))
            .descendant_font(cid)
            .to_unicode(unicode);
        let mut font = pdf.cid_font(cid);
        font.subtype(CidFontType::Type2).base_font(FONT_NAME).system_info(SYSTEM).font_descriptor(descriptor);
        font.cid_to_gid_map_predefined(Name(b"Identity"));
        // By their new numbers, which count from 0 without holes.
        let widths: BTreeMap<u16, f32> = glyphs.widths.clone();
        font.widths().consecutive(
            0,
            (0..=widths.keys().copied().max().unwrap_or(0)).map(|g| widths.get(&g).copied().unwrap_or(0.0)),
        );
        font.finish();
        let em = |units: i16| f32::from(units) * 1000.0 / self.font.units as f32;
        let face = &self.font.face;
        let bounds = face.global_bounding_box();
        pdf.font_descriptor(descriptor)
            .name(FONT_NAME)
            .flags(FontFlags::NON_SYMBOLIC)
            .bbox(Rect::new(em(bounds.x_min), em(bounds.y_min), em(bounds.x_max), em(bounds.y_max)))
            .italic_angle(0.0)
            .ascent(em(face.ascender()))
            .descent(em(face.descender()))
            .cap_height(em(face.capital_height().unwrap_or(face.ascender())))
            .stem_v(80.0)
            .font_file2(file);
        let subset = subsetter::subset(BYTES, 0, &glyphs.numbers).expect("the font is part of the program");
        pdf.stream(file, &subset).pair(Name(b"Length1"), subset.len() as i32);
        let mut map = UnicodeCmap::new(Name(b"Weir-UCS"), SYSTEM);
        glyphs.characters.iter().for_each(|(glyph, c)| map.pair(*glyph, *c));
        pdf.cmap(unicode, &map.finish());
        pdf.finish()
    }

    fn content(&self, glyphs: &mut Glyphs) -> Vec<u8> {
        let mut c = Content::new();
        let up = |(x, y): (f64, f64)| (x as f32, (self.height - y) as f32);
        for mark in &self.marks {
            match mark {
                Mark::Line { points, stroke } => {
                    let [r, g, b] = stroke.colour;
                    c.set_stroke_rgb(r, g, b).set_line_width(stroke.width as f32);
                    c.set_dash_pattern(stroke.dashes.iter().map(|d| *d as f32), 0.0);
                    trace(&mut c, points, up);
                    c.stroke();
                }
                Mark::Area { points, fill, opacity } => {
                    let [r, g, b] = *fill;
                    c.save_state();
                    if *opacity < 1.0 {
                        c.set_parameters(Name(glyphs.state(*opacity).as_bytes()));
                    }
                    c.set_fill_rgb(r, g, b);
                    trace(&mut c, points, up);
                    c.fill_nonzero().restore_state();
                }
                Mark::Text { at, size, anchor, is_upright, text } => {
                    let width = self.font.width(text, *size);
                    let back = match anchor {
                        Anchor::Start => 0.0,
                        Anchor::Middle => width / 2.0,
                        Anchor::End => width,
                    };
                    let start = if *is_upright { (at.0 - back, at.1) } else { (at.0, at.1 + back) };
                    let (x, y) = up(start);
                    let matrix =
                        if *is_upright { [1.0, 0.0, 0.0, 1.0, x, y] } else { [0.0, 1.0, -1.0, 0.0, x, y] };
                    let mut bytes = Vec::new();
                    for c in text.chars() {
                        let glyph = self.font.glyph(c);
                        let width = self.font.advance(glyph) as f32 * 1000.0;
                        let number = glyphs.number(glyph.0, width, c);
                        bytes.extend([(number >> 8) as u8, number as u8]);
                    }
                    c.set_fill_rgb(0.0, 0.0, 0.0);
                    c.begin_text()
                        .set_font(FONT, *size as f32)
                        .set_text_matrix(matrix)
                        .show(Str(&bytes))
                        .end_text();
                }
            }
        }
        c.finish().to_vec()
    }
}

fn trace(c: &mut Content, points: &[(f64, f64)], up: impl Fn((f64, f64)) -> (f32, f32)) {
    for (i, point) in points.iter().enumerate() {
        let (x, y) = up(*point);
        if i == 0 {
            c.move_to(x, y)
        } else {
            c.line_to(x, y)
        };
    }
}

/// The glyphs and opacities that a picture uses.
#[derive(Default)]
struct Glyphs {
    numbers: GlyphRemapper,
    widths: BTreeMap<u16, f32>,
    characters: BTreeMap<u16, char>,
    opacities: Vec<f64>,
}

impl Glyphs {
    fn number(&mut self, glyph: u16, width: f32, c: char) -> u16 {
        let number = self.numbers.remap(glyph);
        self.widths.insert(number, width);
        self.characters.insert(number, c);
        number
    }

    fn state(&mut self, opacity: f64) -> String {
        let number = self.opacities.iter().position(|o| *o == opacity).unwrap_or_else(|| {
            self.opacities.push(opacity);
            self.opacities.len() - 1
        });
        format!("G{number}")
    }
}
