"""Operations on tuples: users' functions, filters, aggregators and queries, and the built-in ones of each kind."""
