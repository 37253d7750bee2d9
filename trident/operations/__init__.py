"""Operations on tuples: functions, filters, aggregators and queries of users, and the built-in ones of each kind."""
