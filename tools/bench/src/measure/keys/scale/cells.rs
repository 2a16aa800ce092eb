//! Places on the earth as the S2 library numbers them: a face of a cube and 30 levels of a Hilbert curve on it.

/// Levels of a leaf cell, which is about 0.9 cm wide.
const LEVELS: u32 = 30;
/// The largest coordinate on a face.
const LAST: i64 = (1 << LEVELS) - 1;
/// Faces of the cube.
const FACES: u64 = 6;
/// For each orientation of the curve the quadrant (i above j) of each step along it.
const QUADRANTS: [[u64; 4]; 4] = [[0, 1, 3, 2], [0, 2, 3, 1], [3, 2, 0, 1], [3, 1, 0, 2]];
/// The change of orientation inside the quadrant of each step.
const TURNS: [u64; 4] = [1, 0, 0, 3];

/// A leaf cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cell {
    face: u64,
    pub(super) i: i64,
    pub(super) j: i64,
}

impl Cell {
    /// The cell with this id; `None` if the id is not of a leaf cell.
    pub(super) fn from_id(id: u64) -> Option<Self> {
        let face = id >> (2 * LEVELS + 1);
        let (mut orientation, mut i, mut j) = (face & 1, 0, 0);
        for level in (0..LEVELS).rev() {
            let step = (id >> (2 * level + 1)) & 3;
            let quadrant = QUADRANTS[orientation as usize][step as usize];
            i = i << 1 | (quadrant >> 1).cast_signed();
            j = j << 1 | (quadrant & 1).cast_signed();
            orientation ^= TURNS[step as usize];
        }
        (id & 1 == 1 && face < FACES).then_some(Cell { face, i, j })
    }

    /// Its id.
    pub(super) fn id(self) -> u64 {
        let (mut orientation, mut id) = (self.face & 1, self.face);
        for level in (0..LEVELS).rev() {
            let quadrant = ((self.i >> level & 1) << 1 | (self.j >> level & 1)).cast_unsigned();
            let quadrants = QUADRANTS[orientation as usize];
            let step =
                quadrants.iter().position(|&other| other == quadrant).expect("every orientation has all quadrants");
            id = id << 2 | step as u64;
            orientation ^= TURNS[step];
        }
        id << 1 | 1
    }

    /// The cell at this distance, clamped to the edge of the face.
    pub(super) fn moved(self, i: i64, j: i64) -> Self {
        Cell { face: self.face, i: (self.i + i).clamp(0, LAST), j: (self.j + j).clamp(0, LAST) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::permutation::mix;

    #[test]
    fn ids_and_coordinates_are_one_to_one() {
        for number in 0..10_000 {
            let id = (mix(number) >> 3) | 1 | (number % FACES) << 61;
            assert_eq!(Cell::from_id(id).unwrap().id(), id);
        }
        assert_eq!((Cell::from_id(2), Cell::from_id(7 << 61 | 1)), (None, None));
    }

    #[test]
    fn neighbours_along_the_curve_are_neighbours_on_the_face() {
        for number in 0..10_000 {
            let id = mix(number) >> 4 | 1;
            let (one, next) = (Cell::from_id(id).unwrap(), Cell::from_id(id + 2).unwrap());
            assert_eq!((one.i - next.i).abs() + (one.j - next.j).abs(), 1, "{id:#x}");
        }
    }

    #[test]
    fn what_is_moved_stays_on_its_face() {
        let cell = Cell::from_id(0x89c2_5a00_0000_0001).unwrap();
        assert_eq!((cell.moved(-LAST, 0).i, cell.moved(0, 2 * LAST).j, cell.moved(3, 0).i), (0, LAST, cell.i + 3));
    }
}
