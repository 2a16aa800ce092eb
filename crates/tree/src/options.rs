//! Options of a tree keyspace.

use std::ops::RangeInclusive;

use ecotone_substrate::{
    Error, Result,
    codec::{Malformed, Reader, Writer},
};

use super::{forecast::ForecastKind, index::MOST_PAGES, layout::Model};

const FILL: RangeInclusive<u8> = 50..=100;
const NEIGHBOURS: RangeInclusive<u8> = 0..=16;
const SEGMENT_PAGES: RangeInclusive<u8> = 1..=MOST_PAGES;

/// Options that are chosen when a tree is created. They are stored in its root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeOptions {
    /// Percent of a page that reorganisation and bulk load fill, 50..=100. Less leaves room for inserts, more packs
    /// cold data. Default 90.
    pub fill: u8,
    /// Segments that a reorganisation may include on each side, 0..=16 (r of TreeLine). Default 5.
    pub neighbours: u8,
    /// Most base pages of a segment, 1..=16 (T7); 1 is a plain index of pages. Default 16.
    pub segment_pages: u8,
    /// How the lines of segments are fitted (T11). Default optimal.
    pub model: Model,
    /// How reorganisation predicts where inserts will arrive, to leave space there (T14). Default off.
    pub forecast: ForecastKind,
    /// Whether the record cache keeps clean records: those that were read or are written out (T1, T3). When off, only
    /// records that wait for write-out are in memory. Default on.
    pub record_cache: bool,
}

impl Default for TreeOptions {
    fn default() -> Self {
        TreeOptions {
            fill: 90,
            neighbours: 5,
            segment_pages: MOST_PAGES,
            model: Model::Optimal,
            forecast: ForecastKind::Off,
            record_cache: true,
        }
    }
}

impl TreeOptions {
    /// Appends the options to a root.
    pub(crate) fn encode(self, w: &mut Writer) {
        w.u8(self.fill).u8(self.neighbours).u8(self.segment_pages).u8(match self.model {
            Model::Optimal => 0,
            Model::Greedy => 1,
        });
        w.u8(self.forecast as u8).u8(u8::from(self.record_cache));
    }

    /// Decodes the output of [`encode`](Self::encode).
    pub(crate) fn decode(r: &mut Reader<'_>) -> std::result::Result<Self, Malformed> {
        let (fill, neighbours, segment_pages) = (r.u8()?, r.u8()?, r.u8()?);
        let model = match r.u8()? {
            0 => Model::Optimal,
            1 => Model::Greedy,
            _ => return r.fail("the kind of model is not known"),
        };
        let Some(forecast) = ForecastKind::ALL.get(usize::from(r.u8()?)).copied() else {
            return r.fail("the kind of forecast is not known");
        };
        let record_cache = match r.u8()? {
            0 => false,
            1 => true,
            _ => return r.fail("the record cache is neither on nor off"),
        };
        TreeOptions { fill, neighbours, segment_pages, model, forecast, record_cache }.checked()
    }

    /// Checks options from disk against their ranges.
    pub(crate) fn checked(self) -> std::result::Result<Self, Malformed> {
        let TreeOptions { fill, neighbours, segment_pages, .. } = self;
        if FILL.contains(&fill) && NEIGHBOURS.contains(&neighbours) && SEGMENT_PAGES.contains(&segment_pages) {
            return Ok(self);
        }
        Err(Malformed::new(0, "an option of a tree is out of bounds"))
    }

    /// Parses options from settings by name. An option that is not named keeps its default.
    pub fn parse(settings: &[(String, String)]) -> Result<Self> {
        let mut options = TreeOptions::default();
        for (name, value) in settings {
            match name.as_str() {
                "fill" => options.fill = number(name, value, FILL)?,
                "neighbours" => options.neighbours = number(name, value, NEIGHBOURS)?,
                "segment_pages" => options.segment_pages = number(name, value, SEGMENT_PAGES)?,
                "model" => options.model = model(value)?,
                "forecast" => options.forecast = forecast(value)?,
                "record_cache" => options.record_cache = switch(name, value)?,
                _ => {
                    let known = "fill, neighbours, segment_pages, model, forecast and record_cache";
                    return Err(Error::Invalid(format!("the tree engine has no option {name:?}; it has {known}")));
                }
            }
        }
        Ok(options)
    }
}

fn number(name: &str, value: &str, range: RangeInclusive<u8>) -> Result<u8> {
    let (least, most) = (*range.start(), *range.end());
    let parsed = value.parse().ok().filter(|number| range.contains(number));
    parsed.ok_or_else(|| {
        Error::Invalid(format!("the option {name} is {value:?}, and must be a number from {least} to {most}"))
    })
}

fn forecast(value: &str) -> Result<ForecastKind> {
    let kind = ForecastKind::ALL.into_iter().find(|kind| kind.name() == value);
    kind.ok_or_else(|| {
        Error::Invalid(format!("the option forecast is {value:?}, and must be off, trend, seasonal or auto"))
    })
}

fn switch(name: &str, value: &str) -> Result<bool> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(Error::Invalid(format!("the option {name} is {value:?}, and must be on or off"))),
    }
}

fn model(value: &str) -> Result<Model> {
    let model = Model::ALL.into_iter().find(|model| model.name() == value);
    model.ok_or_else(|| Error::Invalid(format!("the option model is {value:?}, and must be optimal or greedy")))
}

#[cfg(test)]
mod tests {
    use super::{ForecastKind, Model, TreeOptions};

    #[test]
    fn settings_are_read_and_checked() {
        let set = |name: &str, value: &str| TreeOptions::parse(&[(name.to_owned(), value.to_owned())]);
        assert_eq!(set("fill", "75").unwrap().fill, 75);
        assert_eq!(set("neighbours", "0").unwrap().neighbours, 0);
        assert_eq!(set("segment_pages", "1").unwrap().segment_pages, 1);
        assert_eq!(set("model", "greedy").unwrap().model, Model::Greedy);
        assert_eq!(set("forecast", "auto").unwrap().forecast, ForecastKind::Auto);
        assert!(!set("record_cache", "off").unwrap().record_cache && set("record_cache", "on").unwrap().record_cache);
        let bad = [
            ("forecast", "on"),
            ("record_cache", "0"),
            ("fill", "101"),
            ("fill", "x"),
            ("neighbours", "-1"),
            ("segment_pages", "17"),
            ("model", "best"),
            ("speed", "9"),
        ];
        for (name, value) in bad {
            assert!(set(name, value).unwrap_err().to_string().contains(name));
        }
    }
}
