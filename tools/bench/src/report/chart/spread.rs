//! Places labels without overlap.

/// Moves labels apart on a line from `low` to `high`. Each label has a wanted middle and a size. Their order is kept.
/// `None` if they do not all fit.
pub(super) fn spread(labels: &[(f64, f64)], low: f64, high: f64) -> Option<Vec<f64>> {
    if labels.iter().map(|(_, size)| size).sum::<f64>() > high - low {
        return None;
    }
    let mut order: Vec<usize> = (0..labels.len()).collect();
    order.sort_by(|one, other| labels[*one].0.total_cmp(&labels[*other].0));
    let mut places = vec![0.0; labels.len()];
    let mut free = low;
    for &label in &order {
        let (wanted, size) = labels[label];
        places[label] = f64::max(wanted, free + size / 2.0);
        free = places[label] + size / 2.0;
    }
    let mut free = high;
    for &label in order.iter().rev() {
        let size = labels[label].1;
        places[label] = f64::min(places[label], free - size / 2.0);
        free = places[label] - size / 2.0;
    }
    Some(places)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_keep_their_order_and_do_not_overlap() {
        let labels = [(95.0, 20.0), (90.0, 20.0), (10.0, 20.0), (94.0, 10.0)];
        let places = spread(&labels, 0.0, 100.0).unwrap();
        assert_eq!(places, [90.0, 60.0, 10.0, 75.0]);
    }

    #[test]
    fn what_has_room_stays_and_what_has_none_is_told() {
        assert_eq!(spread(&[(30.0, 10.0), (60.0, 10.0)], 0.0, 100.0), Some(vec![30.0, 60.0]));
        assert_eq!(spread(&[(30.0, 60.0), (60.0, 60.0)], 0.0, 100.0), None);
    }
}
