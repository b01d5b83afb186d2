"""The calls of the emulated ``acl``, one module per noun; the public namespaces only collect them."""
