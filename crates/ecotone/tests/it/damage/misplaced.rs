//! A page that is sound and at the wrong place, as a wrong placement or a lost write leaves it: its fences tell.

use ecotone::internal::substrate::{
    limits::PAGE,
    page::{Page, PageKind, Place},
    storage::FileId,
};

use super::{image::Image, judge::examine, seal::seal};

const FILE: FileId = FileId::Pages(1);

#[test]
fn trap_04_model_drift() {
    let image = Image::new(1);
    let bytes = image.files()[&FILE].clone();
    let page = |number: usize| {
        let place = Place { file: FILE.identity(), page: number as u32 };
        Page::parse(&bytes[number * PAGE..(number + 1) * PAGE], place).ok()
    };
    let base = |number: &usize| page(*number).is_some_and(|page| page.kind() == PageKind::Base);
    let bases: Vec<usize> = (1..bytes.len() / PAGE).filter(base).collect();
    let mut found = 0;
    for pair in bases.windows(2) {
        let mut changed = bytes.clone();
        changed.copy_within(pair[1] * PAGE..(pair[1] + 1) * PAGE, pair[0] * PAGE);
        seal(FILE, &mut changed);
        let disk = image.copy();
        disk.put(FILE, &changed);
        let what = format!("page {} at the place of page {}", pair[1], pair[0]);
        // Whatever is answered is right, or an error that names the file.
        let verdict = examine(&disk, std::slice::from_ref(image.now()), &what);
        found += usize::from(!verdict.errors().is_empty());
        assert!(verdict.errors().iter().all(|error| error.to_string().contains("pages.1")), "{what}: {verdict:?}");
    }
    // Some pages are no longer in use.
    assert!(found > bases.len() / 2, "{found} of {} were noticed", bases.len());
}
