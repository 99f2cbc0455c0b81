// The room is empty yet.
