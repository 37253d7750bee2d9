"""What users do to tuples: functions, filters, aggregators, queries; and the built-in ones."""
