"""What users do to tuples: functions, filters, aggregators, queries; and built-in ones of each kind."""
