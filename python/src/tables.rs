//! Samples as columns that others read where they lie: the Arrow C stream interface.

use arrow_array::builder::{Float64Builder, MapBuilder, StringBuilder};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    ArrayRef, Float64Array, RecordBatch, RecordBatchIterator, StringArray, UInt8Array, UInt32Array,
    UInt64Array,
};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::sync::Arc;
use weir_measure::result::{FlowSample, LinkSample, SteeringEvent};

/// A table that pyarrow, polars, pandas and others take over without copying its columns.
#[pyclass(frozen, module = "weir._weir")]
pub struct Table(RecordBatch);

#[pymethods]
impl Table {
    /// The Arrow C stream interface. Each call gives the same columns, which are not copied.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // A wish for other types may be passed over.
        let _ = requested_schema;
        let reader = RecordBatchIterator::new([Ok(self.0.clone())], self.0.schema());
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new(py, stream, Some(c"arrow_array_stream".to_owned()))
    }

    fn __len__(&self) -> usize {
        self.0.num_rows()
    }
}

type Columns = Vec<(&'static str, ArrayRef)>;

fn table(columns: Columns) -> PyResult<Table> {
    let batch =
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, of)| (name, of, true)));
    batch.map(Table).map_err(|e| PyRuntimeError::new_err(e.to_string()))
}

/// A column of numbers out of rows.
macro_rules! column {
    ($rows:expr, $field:ident, $array:ty) => {
        (
            stringify!($field),
            Arc::new(<$array>::from($rows.iter().map(|r| r.$field).collect::<Vec<_>>())) as ArrayRef,
        )
    };
}

/// Samples of a link.
pub fn of_link(rows: &[LinkSample]) -> PyResult<Table> {
    // What is not a number is nothing.
    let told = |of: fn(&LinkSample) -> f64| -> Float64Array {
        rows.iter().map(|r| Some(of(r)).filter(|value| !value.is_nan())).collect()
    };
    let (setpoints, capacities) = (told(|r| r.setpoint_ms), told(|r| r.capacity_bps));
    table(vec![
        column!(rows, t_s, Float64Array),
        column!(rows, arrived_bps, Float64Array),
        column!(rows, delivered_bps, Float64Array),
        column!(rows, delay_mean_ms, Float64Array),
        column!(rows, delay_max_ms, Float64Array),
        column!(rows, backlog_bytes, UInt64Array),
        ("setpoint_ms", Arc::new(setpoints)),
        column!(rows, drops, UInt64Array),
        column!(rows, overflows, UInt64Array),
        column!(rows, marks, UInt64Array),
        column!(rows, table_state, UInt8Array),
        column!(rows, virtual_backlog_bytes, UInt64Array),
        column!(rows, virtual_rate_bps, Float64Array),
        column!(rows, virtual_empty, Float64Array),
        ("capacity_bps", Arc::new(capacities)),
    ])
}

/// Samples of all flows.
pub fn of_flows(rows: &[FlowSample]) -> PyResult<Table> {
    table(vec![
        column!(rows, t_s, Float64Array),
        column!(rows, flow, UInt32Array),
        column!(rows, cwnd, UInt32Array),
        column!(rows, ssthresh, UInt32Array),
        column!(rows, rtt_us, UInt32Array),
        column!(rows, rttvar_us, UInt32Array),
        column!(rows, retransmits, UInt32Array),
        column!(rows, bytes_acked, UInt64Array),
        column!(rows, delivery_bps, UInt64Array),
    ])
}

/// Moves of set points.
pub fn of_events(rows: &[SteeringEvent]) -> PyResult<Table> {
    let mut measured = MapBuilder::new(None, StringBuilder::new(), Float64Builder::new());
    for row in rows {
        for (name, value) in &row.measured {
            measured.keys().append_value(name);
            measured.values().append_value(*value);
        }
        measured.append(true).map_err(|e| PyRuntimeError::new_err(e.to_string()))?;
    }
    let texts =
        |of: fn(&SteeringEvent) -> &str| Arc::new(rows.iter().map(|r| Some(of(r))).collect::<StringArray>());
    table(vec![
        column!(rows, t_s, Float64Array),
        ("link", texts(|r| &r.link)),
        ("rule", texts(|r| &r.rule)),
        column!(rows, from, Float64Array),
        column!(rows, to, Float64Array),
        ("unit", texts(|r| &r.unit)),
        ("measured", Arc::new(measured.finish())),
    ])
}
