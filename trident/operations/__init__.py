"""Operations on tuples: functions, filters, aggregators and queries of users, and built-in ones of each kind."""
