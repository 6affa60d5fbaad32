"""What several commands share: options and their values, dates, filters, refusals."""
