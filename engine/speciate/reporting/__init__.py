"""What a comparison came to: tables, findings, figures and one page, from nothing but its runs."""
