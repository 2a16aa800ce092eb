//! Tests of forecasting.

mod simulate;
