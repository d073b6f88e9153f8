"""Draws an episode as one image: its screens side by side, with touches marked and the actions below."""

from __future__ import annotations

from PIL import Image, ImageDraw, ImageFont

from mobilerl.envs.base import COORD_MAX, LongPress, Swipe, Tap
from mobilerl.records import Step, Trajectory

HEIGHT, MARGIN, TEXT = 480, 8, 14
"""Height of a screen, gap between screens and height of a line of text, in pixels."""
TOUCH = "#e11d48"
RADIUS = 14
FONT = ImageFont.load_default(TEXT)


def draw_episode(trajectory: Trajectory) -> Image.Image | None:
    """Returns the image, with the instruction and the outcome above it; None for an episode without screenshots."""
    screens = [_draw_step(step) for step in trajectory.steps if step.observation.screenshot]
    if not screens:
        return None
    width = MARGIN + sum(screen.width + MARGIN for screen in screens)
    head = TEXT + 2 * MARGIN
    image = Image.new("RGB", (width, head + screens[0].height), "white")
    outcome = "success" if trajectory.success else str(trajectory.status)
    about = f"{outcome}, reward {trajectory.reward:g}: {trajectory.task.instruction}"
    ImageDraw.Draw(image).text((MARGIN, MARGIN), _fitting(about, width), "black", FONT)
    left = MARGIN
    for screen in screens:
        image.paste(screen, (left, head))
        left += screen.width + MARGIN
    return image


def _draw_step(step: Step) -> Image.Image:
    seen = step.observation
    scale = HEIGHT / seen.height
    screen = seen.image.convert("RGB").resize((round(seen.width * scale), HEIGHT))
    image = Image.new("RGB", (screen.width, HEIGHT + TEXT + 2 * MARGIN), "white")
    image.paste(screen)
    draw, action = ImageDraw.Draw(image), step.action

    def at(x: int, y: int) -> tuple[float, float]:
        return x * screen.width / COORD_MAX, y * HEIGHT / COORD_MAX

    if isinstance(action, Tap | LongPress | Swipe):
        draw.circle(at(action.x, action.y), RADIUS, outline=TOUCH, width=4)
    if isinstance(action, Swipe):
        draw.line([at(action.x, action.y), at(action.x2, action.y2)], TOUCH, 4)
    words = [action.kind, *(getattr(action, name, "") for name in ("text", "app", "message", "reason"))]
    draw.text((0, HEIGHT + MARGIN), _fitting(" ".join(filter(None, words)), screen.width), "black", FONT)
    return image


def _fitting(text: str, width: int) -> str:
    """Returns the first line of the text, truncated to a width in pixels."""
    line = text.partition("\n")[0]
    while FONT.getlength(line) > width - MARGIN:
        line = line[:-2].rstrip("…") + "…"
    return line
