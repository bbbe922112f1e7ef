//! Vectors and matrices of three.

/// Three numbers.
pub(super) type Vector = [f64; 3];

/// Three rows of three.
pub(super) type Matrix = [Vector; 3];

/// A matrix times a vector.
pub(super) fn times(matrix: &Matrix, vector: &Vector) -> Vector {
    matrix.map(|row| row[0] * vector[0] + row[1] * vector[1] + row[2] * vector[2])
}

fn product(a: &Matrix, b: &Matrix) -> Matrix {
    let b = transposed(b);
    a.map(|row| times(&b, &row))
}

fn transposed(matrix: &Matrix) -> Matrix {
    [0, 1, 2].map(|column| [0, 1, 2].map(|row| matrix[row][column]))
}

/// A matrix with its columns scaled.
fn columns_scaled(matrix: &Matrix, by: Vector) -> Matrix {
    matrix.map(|row| [0, 1, 2].map(|at| row[at] * by[at]))
}

/// The symmetric matrix that turns colours of the covariance `own` into some of the covariance `wanted`. Roots of `own` are no
/// smaller than `least`.
pub(super) fn transport(own: &Matrix, wanted: &Matrix, least: f64) -> Matrix {
    let (values, vectors) = eigen(*own);
    let roots = values.map(|value| value.max(0.0).sqrt().max(least));
    let scaled = columns_scaled(&vectors, roots);
    let middle = product(&product(&transposed(&scaled), wanted), &scaled);
    let (values, turns) = eigen(middle);
    let half = product(
        &columns_scaled(&turns, values.map(|value| value.max(0.0).sqrt())),
        &transposed(&turns),
    );
    let back = columns_scaled(&vectors, roots.map(|root| 1.0 / root));
    product(&product(&back, &half), &transposed(&back))
}

/// Eigenvalues and, as columns, eigenvectors of a symmetric matrix: turned in the plane of two axes after the other until
/// nothing is left beside the diagonal.
fn eigen(mut matrix: Matrix) -> (Vector, Matrix) {
    // Each round squares what is left; a few are enough for every double.
    const ROUNDS: usize = 16;
    let mut vectors = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
    for _ in 0..ROUNDS {
        for (p, q) in [(0, 1), (0, 2), (1, 2)] {
            if matrix[p][q] == 0.0 {
                continue;
            }
            let slope = (matrix[q][q] - matrix[p][p]) / (2.0 * matrix[p][q]);
            let tangent = slope.signum() / (slope.abs() + slope.hypot(1.0));
            let cosine = 1.0 / tangent.hypot(1.0);
            let mut turn = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
            (turn[p][p], turn[q][q]) = (cosine, cosine);
            (turn[p][q], turn[q][p]) = (tangent * cosine, -tangent * cosine);
            matrix = product(&product(&transposed(&turn), &matrix), &turn);
            vectors = product(&vectors, &turn);
        }
    }
    ([matrix[0][0], matrix[1][1], matrix[2][2]], vectors)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Matrix = [[4.0, 1.0, 0.5], [1.0, 3.0, -0.25], [0.5, -0.25, 2.0]];
    const WANTED: Matrix = [[1.0, 0.2, 0.0], [0.2, 5.0, 1.0], [0.0, 1.0, 0.5]];

    fn is_near(a: &Matrix, b: &Matrix) -> bool {
        let pairs = a.iter().flatten().zip(b.iter().flatten());
        pairs.into_iter().all(|(a, b)| (a - b).abs() < 1e-9)
    }

    #[test]
    fn the_map_gives_the_wanted_covariance() {
        let map = transport(&OWN, &WANTED, 1e-6);
        assert!(is_near(&map, &transposed(&map)), "{map:?}");
        let moved = product(&product(&map, &OWN), &map);
        assert!(is_near(&moved, &WANTED), "{moved:?}");
    }

    #[test]
    fn nothing_is_endless_where_a_colour_has_no_spread() {
        let map = transport(&[[0.0; 3]; 3], &WANTED, 1e-6);
        assert!(
            map.iter().flatten().all(|number| number.is_finite()),
            "{map:?}"
        );
    }
}
