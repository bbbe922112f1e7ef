//! engine-native.
