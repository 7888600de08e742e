//! A target for every algorithm of the list.

/// From the lines of THE LIST.
macro_rules! of_the_list {
    ($($(#[$gate:meta])* $module:ident => $ty:ident,)*) => {
        weir_fuzz::targets! {$(
            $(#[$gate])*
            $module: 250, weir_fuzz::algorithm::<weir_aqm::algorithms::$module::$ty>;
        )*}
    };
}

weir_aqm::each_algorithm!(of_the_list);
