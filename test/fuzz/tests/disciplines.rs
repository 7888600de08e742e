//! A target for every discipline of the list, over all algorithms.

/// From the lines of the list.
macro_rules! of_the_list {
    ($($module:ident => $ty:ident,)*) => {
        weir_fuzz::targets! {$(
            $module: 200, |bytes: &[u8]| {
                weir_fuzz::discipline(<weir_queue::$module::$ty as weir_queue::Entry>::NAME, bytes)
            };
        )*}
    };
}

weir_queue::each_discipline!(of_the_list);
