/* The sun and four planets that pull at each other: products, sums, a root and a quotient a pair. */
#include "floats.h"

#define BODIES 5

struct body { double x, y, z, vx, vy, vz, mass; };
static struct body bodies[BODIES];

static OWN void advance(double dt) {
  for (int i = 0; i < BODIES; i++) {
    struct body *a = &bodies[i];
    for (int j = i + 1; j < BODIES; j++) {
      struct body *b = &bodies[j];
      double dx = a->x - b->x, dy = a->y - b->y, dz = a->z - b->z;
      double distance = sqrt(dx * dx + dy * dy + dz * dz);
      double pull = dt / (distance * distance * distance);
      a->vx -= dx * b->mass * pull;
      a->vy -= dy * b->mass * pull;
      a->vz -= dz * b->mass * pull;
      b->vx += dx * a->mass * pull;
      b->vy += dy * a->mass * pull;
      b->vz += dz * a->mass * pull;
    }
  }
  for (int i = 0; i < BODIES; i++) {
    struct body *a = &bodies[i];
    a->x += dt * a->vx;
    a->y += dt * a->vy;
    a->z += dt * a->vz;
  }
}

static OWN double energy(void) {
  double total = 0;
  for (int i = 0; i < BODIES; i++) {
    const struct body *a = &bodies[i];
    total += 0.5 * a->mass * (a->vx * a->vx + a->vy * a->vy + a->vz * a->vz);
    for (int j = i + 1; j < BODIES; j++) {
      const struct body *b = &bodies[j];
      double dx = a->x - b->x, dy = a->y - b->y, dz = a->z - b->z;
      total -= a->mass * b->mass / sqrt(dx * dx + dy * dy + dz * dz);
    }
  }
  return total;
}

/* Circles about the sun, in one plane and a little out of it. */
static void prepare(void) {
  static const double distances[BODIES] = {0, 5, 9.5, 19, 30};
  static const double masses[BODIES] = {39.5, 0.0375, 0.0112, 0.0017, 0.002};
  for (int i = 0; i < BODIES; i++) {
    struct body *a = &bodies[i];
    a->mass = masses[i];
    a->x = distances[i];
    a->z = 0.01 * i;
    if (i > 0) a->vy = sqrt(masses[0] / distances[i]);
    bodies[0].vy -= a->vy * a->mass / masses[0];
  }
}

static void turn(unsigned n) {
  double before = energy();
  for (int i = 0; i < 160; i++) advance(0.001);
  must(fabs(energy() - before) < 1e-6, "energy is lost");
  note(energy());
  note(bodies[n % BODIES].x);
}
