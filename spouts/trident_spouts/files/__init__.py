"""Files as a transactional source: listing, planning, and reading on the workers."""
