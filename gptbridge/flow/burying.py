"""Windows that dead owners left: one of them may hold a page that still wants to send (GT-18).

A window's note in its seat goes only when the window is gone or was closed behind a closed gate; where Chrome does not say so, it stays
for the next try, and the command that found it goes no further. Seats are not waited for, so it comes before any lock that is.
Raises what `Browser.bury` raises.
"""

from __future__ import annotations

from gptbridge.core.ports import Seat, SeatLock, World


def bury_the_dead(w: World, *own: SeatLock) -> None:
    """Those of every seat that is free now, and of our own."""
    with w.locks.dead_seats() as free:
        places = [*own, *free]
        for place in places:
            window = place.window()
            if window:
                w.browser.bury(window)
                place.note_window(None)
        w.browser.bury_blank([place.number for place in places])


def close(place: SeatLock, seat: Seat) -> None:
    """A window of our own at its end."""
    if seat.close():
        place.note_window(None)
