//! Looking names up and listing directories: answers and requests.

mod cold_path;
mod directory_times;
mod large_directories;
mod listing;
mod lookup;
mod own_directories;
mod saved_listings;
mod walk_times;
mod walking;

use super::*;
