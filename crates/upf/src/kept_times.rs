//! Times and durations as they are kept on disk.

/// Durations that may be missing, in nanoseconds.
pub(crate) mod nanos {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use weir_units::Duration;

    pub fn serialize<S: Serializer>(value: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
        value.map(Duration::as_nanos).serialize(to)
    }

    pub fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(from)?.map(Duration::from_nanos))
    }
}

/// Times of the clock of this function, in nanoseconds since it started.
pub(crate) mod instant {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use weir_units::Time;

    pub fn serialize<S: Serializer>(value: &Time, to: S) -> Result<S::Ok, S::Error> {
        value.as_nanos().serialize(to)
    }

    pub fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Time, D::Error> {
        Ok(Time::from_nanos(u64::deserialize(from)?))
    }
}

/// Those that may be missing.
pub(crate) mod instants {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use weir_units::Time;

    pub fn serialize<S: Serializer>(value: &Option<Time>, to: S) -> Result<S::Ok, S::Error> {
        value.map(Time::as_nanos).serialize(to)
    }

    pub fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Option<Time>, D::Error> {
        Ok(Option::<u64>::deserialize(from)?.map(Time::from_nanos))
    }
}
