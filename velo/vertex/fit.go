package vertex

import "math"

// line is the straight line intercept + slope·(z - origin) with its errors, fitted to weighted points. The zero line
// has no points.
type line struct {
	w, wz, wzz, wy, wzy, wyy                  float64 // sums over the points; z from origin
	origin                                    float64 // of z, mm: near the points, so that the sums do not cancel
	intercept, slope                          float64 // the value at origin
	interceptVar, interceptSlopeCov, slopeVar float64 // covariance
}

// add adds a point with the weight 1/σ².
func (l *line) add(z, y, weight float64) {
	z -= l.origin
	wz, wy := weight*z, weight*y
	l.w, l.wz, l.wzz = l.w+weight, l.wz+wz, l.wzz+wz*z
	l.wy, l.wzy, l.wyy = l.wy+wy, l.wzy+wz*y, l.wyy+wy*y
}

// fit computes the line from its points, at least two at different z.
func (l *line) fit() {
	d := 1 / (l.w*l.wzz - l.wz*l.wz)
	l.intercept, l.slope = d*(l.wzz*l.wy-l.wz*l.wzy), d*(l.w*l.wzy-l.wz*l.wy)
	l.interceptVar, l.interceptSlopeCov, l.slopeVar = d*l.wzz, -d*l.wz, d*l.w
}

// value is the line's value at z.
func (l *line) value(z float64) float64 { return l.intercept + l.slope*(z-l.origin) }

// variance is σ² of the value at z.
func (l *line) variance(z float64) float64 {
	z -= l.origin
	return l.interceptVar + z*(2*l.interceptSlopeCov+z*l.slopeVar)
}

// chi2 is the sum of squared deviations of its points.
func (l *line) chi2() float64 {
	return max(0, l.wyy-l.intercept*l.wy-l.slope*l.wzy)
}

// beamCrossing is the z at which the line is 0. It is infinite for a line along the beam.
func (l *line) beamCrossing() float64 { return l.origin - l.intercept/l.slope }

// solve solves a·x = b for a symmetric 3×3 matrix, given by its upper half: 00 01 02 11 12 22. It also returns the
// diagonal of the inverse; ok is false if there is no solution.
func solve(a [6]float64, b [3]float64) (x, diagonal [3]float64, ok bool) {
	c00, c01, c02 := a[3]*a[5]-a[4]*a[4], a[2]*a[4]-a[1]*a[5], a[1]*a[4]-a[2]*a[3]
	c11, c12, c22 := a[0]*a[5]-a[2]*a[2], a[1]*a[2]-a[0]*a[4], a[0]*a[3]-a[1]*a[1]
	det := a[0]*c00 + a[1]*c01 + a[2]*c02
	if math.Abs(det) < 1e-30 || math.IsNaN(det) {
		return x, diagonal, false
	}
	d := 1 / det
	x[0] = d * (c00*b[0] + c01*b[1] + c02*b[2])
	x[1] = d * (c01*b[0] + c11*b[1] + c12*b[2])
	x[2] = d * (c02*b[0] + c12*b[1] + c22*b[2])
	return x, [3]float64{d * c00, d * c11, d * c22}, true
}
