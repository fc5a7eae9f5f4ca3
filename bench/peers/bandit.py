"""Non-stationary LinUCB with two arms (method §5), for contexts of one or two coordinates, in plain Python numbers:
a round is sequential, and a tensor operation costs more than a 2 × 2 solve."""
import math

RIDGE, SUBGAUSSIAN, DISCOUNT, CONFIDENCE = 0.1, 3.0, 0.99, 0.01


class Bandit:
    """Matrices as (a, b, c) for [[a, b], [b, c]]; one coordinate is two with a second that is always 0."""

    def __init__(self, dimension):
        self.dimension = dimension
        self.gram = [[RIDGE, 0.0, RIDGE] for _ in range(2)]
        self.squared = [[RIDGE, 0.0, RIDGE] for _ in range(2)]
        self.response = [[0.0, 0.0] for _ in range(2)]
        self.weight = 0.0
        self.beta = self.radius()

    def radius(self):
        spread = self.dimension * math.log(1 + self.weight / (RIDGE * self.dimension))
        return math.sqrt(RIDGE) + SUBGAUSSIAN * math.sqrt(-2 * math.log(CONFIDENCE) + spread)

    def choose(self, x, y):
        scores = []
        for (a, b, c), (sa, sb, sc), (ra, rb) in zip(self.gram, self.squared, self.response):
            scale = 1 / (a * c - b * b)
            u, v = (c * x - b * y) * scale, (a * y - b * x) * scale  # V⁻¹x
            width = u * (sa * u + 2 * sb * v) + sc * v * v
            scores.append(u * ra + v * rb + self.beta * math.sqrt(width if width > 0 else 0.0))
        return 1 if scores[1] > scores[0] else 0

    def update(self, x, y, arm, reward):
        for matrix, keep in ((self.gram[arm], DISCOUNT), (self.squared[arm], DISCOUNT * DISCOUNT)):
            top_up = (1 - keep) * RIDGE
            matrix[0] = keep * matrix[0] + x * x + top_up
            matrix[1] = keep * matrix[1] + x * y
            matrix[2] = keep * matrix[2] + y * y + top_up
        response = self.response[arm]
        response[0] = DISCOUNT * response[0] + reward * x
        response[1] = DISCOUNT * response[1] + reward * y
        self.weight = DISCOUNT * DISCOUNT * self.weight + 1
        self.beta = self.radius()

    def learn(self, contexts, rewards):
        """Plays and learns a round; `rewards` are those of growing, keeping earns nothing."""
        for context, reward in zip(contexts.tolist(), rewards.tolist()):
            x, y = context if self.dimension == 2 else (context[0], 0.0)
            arm = self.choose(x, y)
            self.update(x, y, arm, reward if arm else 0.0)

    def decide(self, contexts):
        rows = contexts.tolist()
        return [bool(self.choose(*(row if self.dimension == 2 else (row[0], 0.0)))) for row in rows]
