//! Tables with typed columns: as CSV and as Parquet.

use crate::csv;
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The cells of a column.
#[derive(Clone, PartialEq, Debug)]
pub enum Cells {
    /// Texts.
    Text(Vec<String>),
    /// Whole numbers.
    Count(Vec<Option<u64>>),
    /// Numbers.
    Number(Vec<Option<f64>>),
}

/// A named column.
#[derive(Clone, PartialEq, Debug)]
pub struct Column {
    /// Its name, with the unit.
    pub name: String,
    /// One cell for each row.
    pub cells: Cells,
}

/// Columns of the same length.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Table {
    /// The columns, from left to right.
    pub columns: Vec<Column>,
}

impl Cells {
    /// Texts, or numbers where all of them are such and no two different texts are one number: points called
    /// 5.1 and 5.10 would become one.
    pub fn read(texts: Vec<String>) -> Cells {
        if let Ok(counts) = texts.iter().map(|t| t.parse().map(Some)).collect() {
            return Cells::Count(counts).or_names(texts);
        }
        // Of the two zeros one, as readers of tables take them for the same.
        match texts.iter().map(|t| t.parse().map(|x: f64| Some(x + 0.0))).collect() {
            Ok(numbers) => Cells::Number(numbers).or_names(texts),
            Err(_) => Cells::Text(texts),
        }
    }

    /// These cells, or the texts that they were read from where two different ones have the same cell.
    fn or_names(self, texts: Vec<String>) -> Cells {
        let different = texts.iter().collect::<BTreeSet<_>>().len();
        let cells = (0..texts.len()).map(|row| self.text(row)).collect::<BTreeSet<_>>().len();
        if cells == different { self } else { Cells::Text(texts) }
    }

    fn len(&self) -> usize {
        match self {
            Cells::Text(cells) => cells.len(),
            Cells::Count(cells) => cells.len(),
            Cells::Number(cells) => cells.len(),
        }
    }

    /// A cell as text, empty where there is nothing. Numbers have the shortest form that reads back the same.
    fn text(&self, row: usize) -> String {
        match self {
            Cells::Text(cells) => cells[row].clone(),
            Cells::Count(cells) => cells[row].map_or(String::new(), |n| n.to_string()),
            Cells::Number(cells) => cells[row].map_or(String::new(), |x| x.to_string()),
        }
    }
}

impl Table {
    /// Adds a column.
    pub fn push(&mut self, name: impl Into<String>, cells: Cells) {
        let rows = self.rows();
        assert!(self.columns.is_empty() || cells.len() == rows, "columns have the same length");
        self.columns.push(Column { name: name.into(), cells });
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |c| c.cells.len())
    }

    /// As CSV (RFC 4180) with a header.
    pub fn to_csv(&self) -> String {
        let names: Vec<&str> = self.columns.iter().map(|c| c.name.as_str()).collect();
        let mut out = csv::line(&names);
        for row in 0..self.rows() {
            let cells: Vec<String> = self.columns.iter().map(|c| c.cells.text(row)).collect();
            out.push_str(&csv::line(&cells));
        }
        out
    }

    /// As a Parquet file with one row group, uncompressed. The same table gives the same bytes.
    pub fn to_parquet(&self) -> Result<Vec<u8>, ParquetError> {
        let fields = self.columns.iter().map(|c| field(c).map(Arc::new));
        let fields = fields.collect::<Result<Vec<_>, _>>()?;
        let schema = Type::group_type_builder("table").with_fields(fields).build()?;
        let properties = WriterProperties::builder()
            .set_created_by(concat!("weir ", env!("CARGO_PKG_VERSION")).to_string())
            .set_compression(Compression::UNCOMPRESSED)
            .build();
        let mut file = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties))?;
        let mut group = file.next_row_group()?;
        for column in &self.columns {
            let mut writer = group.next_column()?.expect("the schema has a field for each column");
            write_cells(&mut writer, &column.cells)?;
            writer.close()?;
        }
        group.close()?;
        file.into_inner()
    }
}

fn field(column: &Column) -> Result<Type, ParquetError> {
    let (physical, logical, repetition) = match column.cells {
        Cells::Text(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String), Repetition::REQUIRED),
        Cells::Count(_) => (Physical::INT64, None, Repetition::OPTIONAL),
        Cells::Number(_) => (Physical::DOUBLE, None, Repetition::OPTIONAL),
    };
    let builder = Type::primitive_type_builder(&column.name, physical);
    builder.with_logical_type(logical).with_repetition(repetition).build()
}

fn write_cells(writer: &mut SerializedColumnWriter<'_>, cells: &Cells) -> Result<(), ParquetError> {
    match cells {
        Cells::Text(texts) => {
            let values: Vec<ByteArray> = texts.iter().map(|t| ByteArray::from(t.as_str())).collect();
            writer.typed::<ByteArrayType>().write_batch(&values, None, None)?;
        }
        Cells::Count(counts) => {
            let values: Vec<i64> = counts.iter().flatten().map(|n| *n as i64).collect();
            writer.typed::<Int64Type>().write_batch(&values, Some(&presence(counts)), None)?;
        }
        Cells::Number(numbers) => {
            let values: Vec<f64> = numbers.iter().flatten().copied().collect();
            writer.typed::<DoubleType>().write_batch(&values, Some(&presence(numbers)), None)?;
        }
    }
    Ok(())
}

/// The definition level of each cell: 1 where there is a value.
fn presence<T>(cells: &[Option<T>]) -> Vec<i16> {
    cells.iter().map(|cell| i16::from(cell.is_some())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;
    use std::io::Write;

    fn table() -> Table {
        let mut table = Table::default();
        table.push("aqm", Cells::read(vec!["gsp".into(), "a,\"b\"".into()]));
        table.push("count", Cells::read(vec!["2".into(), "9".into()]));
        table.push("ms", Cells::Number(vec![None, Some(0.1)]));
        table
    }

    #[test]
    fn csv_quotes_what_it_must_and_leaves_holes() {
        assert_eq!(table().to_csv(), "aqm,count,ms\ngsp,2,\n\"a,\"\"b\"\"\",9,0.1\n");
    }

    #[test]
    fn different_names_that_are_one_number_stay_texts() {
        let read = |texts: &[&str]| Cells::read(texts.iter().map(|text| text.to_string()).collect());
        for names in [["5.1", "5.10"], ["1", "01"], ["0", "-0"], ["nan", "NaN"]] {
            assert_eq!(read(&names), Cells::Text(names.map(String::from).to_vec()));
        }
        // Rows of one point have one name, and what stays different may be numbers.
        assert_eq!(read(&["5.1", "5.1", "6"]), Cells::Number(vec![Some(5.1), Some(5.1), Some(6.0)]));
        assert_eq!(read(&["01", "2", "01"]), Cells::Count(vec![Some(1), Some(2), Some(1)]));
    }

    #[test]
    fn parquet_reads_back_with_types_and_holes() {
        let bytes = table().to_parquet().unwrap();
        assert_eq!(bytes, table().to_parquet().unwrap());
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        let reader = SerializedFileReader::new(file).unwrap();
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(|row| row.unwrap()).collect();
        let cells = |i: usize| rows[i].get_column_iter().map(|(_, f)| f.clone()).collect::<Vec<_>>();
        assert_eq!(cells(0), [Field::Str("gsp".into()), Field::Long(2), Field::Null]);
        assert_eq!(cells(1), [Field::Str("a,\"b\"".into()), Field::Long(9), Field::Double(0.1)]);
    }
}
