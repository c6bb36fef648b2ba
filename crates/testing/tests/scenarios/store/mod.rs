//! STORE: the one store under everything, as far as sessions go.
