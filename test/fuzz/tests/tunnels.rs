//! Targets for the user plane.

weir_fuzz::targets! {
    gtpu: 3000, weir_fuzz::gtpu;
    user_plane: 300, weir_fuzz::user_plane;
}
