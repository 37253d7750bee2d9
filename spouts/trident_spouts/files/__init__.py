"""Files as a transactional source: how they are listed, planned into batches, and read on the workers."""
