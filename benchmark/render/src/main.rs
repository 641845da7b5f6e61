//! Draws SVG files as PNG files beside them: `render FILE.svg …`.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree};

/// Pixels for each unit, so that text is sharp on dense screens.
const SCALE: f32 = 2.0;

fn main() -> Result<()> {
    let files: Vec<PathBuf> = env::args_os().skip(1).map(PathBuf::from).collect();
    let mut options = Options::default();
    let fonts = options.fontdb_mut();
    fonts.load_system_fonts();
    fonts.set_sans_serif_family("DejaVu Sans");
    ensure!(
        !fonts.is_empty(),
        "this machine has no fonts: install fonts-dejavu-core"
    );
    for file in files {
        draw(&file, &options).with_context(|| file.display().to_string())?;
    }
    Ok(())
}

fn draw(file: &Path, options: &Options<'_>) -> Result<()> {
    let tree = Tree::from_str(&fs::read_to_string(file)?, options)?;
    let size = tree.size().to_int_size().scale_by(SCALE);
    let size = size.context("the picture has no size")?;
    let mut pixels = Pixmap::new(size.width(), size.height()).context("it is too large")?;
    resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
    pixels.save_png(file.with_extension("png"))?;
    Ok(())
}
