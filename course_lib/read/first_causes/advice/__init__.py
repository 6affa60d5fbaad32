"""What each cause means and what to try, in words for somebody who meets it for the first time."""
