"""What goes beyond the public interfaces of Java, Spark and the C library to be faster: all of it behind `is_tuned`."""
