"""White space as Unicode and Rust define it: `str.isspace` also counts U+001C to U+001F."""

WHITE_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
