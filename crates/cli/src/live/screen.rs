//! The terminal while a live view is on it: taken, drawn on, and given back whatever happens.
//!
//! A thread of its own draws, so that a slow terminal never holds up the run. The terminal keeps turning
//! Ctrl-C into a signal, so ending works as without a view.

use super::board::Links;
use super::{draw, lock};
use crate::interrupt::interrupted;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen};
use rustix::process::getpgrp;
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios, tcflush, tcgetattr,
    tcgetpgrp, tcgetwinsize, tcsetattr,
};
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, Once, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// Time between two pictures.
const PERIOD: Duration = Duration::from_millis(200);
/// How long giving the terminal back waits for a picture that is being drawn.
const PATIENCE: Duration = Duration::from_millis(300);
/// Room for a whole picture, so that it reaches the terminal in one piece.
const PICTURE_BYTES: usize = 1 << 16;

/// The screen that has the terminal; 0 for none.
static ACTIVE: AtomicU32 = AtomicU32::new(0);
/// Held by whoever writes to the terminal.
static PEN: Mutex<()> = Mutex::new(());
/// How the terminal was set before.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

type Canvas = Terminal<CrosstermBackend<BufWriter<File>>>;

/// A live view on the terminal; gives the terminal back when dropped.
pub struct Screen {
    id: u32,
    /// Its end tells the drawing thread to end.
    _end: Sender<()>,
}

impl Screen {
    /// Takes the terminal. None if it is too small, not ours, or refuses.
    pub fn open(boards: Arc<Mutex<Links>>) -> Option<Screen> {
        static COUNT: AtomicU32 = AtomicU32::new(1);
        if !is_usable() {
            return None;
        }
        let id = COUNT.fetch_add(1, Ordering::Relaxed);
        lock(&boards).takes_keys = io::stdin().is_terminal();
        let canvas = take_terminal(id).inspect_err(|_| restore()).ok()?;
        let (end, ended) = channel();
        let thread = std::thread::Builder::new().name("weir-view".into());
        let spawned = thread.spawn(move || draw_until(&ended, id, canvas, &boards));
        spawned.inspect_err(|_| restore()).ok()?;
        Some(Screen { id, _end: end })
    }

    /// Whether it still has the terminal.
    pub fn is_active(&self) -> bool {
        ACTIVE.load(Ordering::SeqCst) == self.id
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Whether the terminal is large enough, and this program in its foreground: others may not change it.
fn is_usable() -> bool {
    let stdout = io::stdout();
    let in_front = tcgetpgrp(&stdout).is_ok_and(|group| group == getpgrp());
    in_front && tcgetwinsize(&stdout).is_ok_and(|size| draw::fits(size.ws_col, size.ws_row))
}

fn take_terminal(id: u32) -> io::Result<Canvas> {
    restore_on_panic();
    let stdout = io::stdout();
    let before = tcgetattr(&stdout)?;
    *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(before.clone());
    ACTIVE.store(id, Ordering::SeqCst);
    tcsetattr(&stdout, OptionalActions::Now, &quiet(before))?;
    // A descriptor of its own: whoever waits for `stdout` must not wait for a picture.
    let mut file = File::from(stdout.as_fd().try_clone_to_owned()?);
    execute!(file, EnterAlternateScreen, Hide)?;
    Terminal::new(CrosstermBackend::new(BufWriter::with_capacity(PICTURE_BYTES, file)))
}

/// Keys are not shown. Ctrl-C stays a signal; Ctrl-S and Ctrl-Z do nothing, as the run would go on behind a
/// view that stands still, or stand still in the middle of a measurement.
fn quiet(mut modes: Termios) -> Termios {
    modes.local_modes -= LocalModes::ECHO | LocalModes::ICANON;
    modes.input_modes -= InputModes::IXON;
    modes.special_codes[SpecialCodeIndex::VSUSP] = 0;
    modes
}

fn draw_until(ended: &Receiver<()>, id: u32, mut canvas: Canvas, boards: &Mutex<Links>) {
    let look = draw::TerminalStyle::of_terminal();
    loop {
        // Copied, so that the run never waits for the drawing.
        let now = lock(boards).clone();
        let ending = interrupted().load(Ordering::Relaxed);
        let pen = PEN.lock().unwrap_or_else(PoisonError::into_inner);
        if ACTIVE.load(Ordering::SeqCst) != id {
            return;
        }
        if canvas.draw(|frame| draw::draw(frame, &now, &look, ending)).is_err() {
            return;
        }
        drop(pen);
        if ended.recv_timeout(PERIOD) != Err(RecvTimeoutError::Timeout) {
            return;
        }
        if now.takes_keys {
            obey_keys(boards);
        }
    }
}

/// Does what the keys say that were pressed since the last picture.
fn obey_keys(boards: &Mutex<Links>) {
    let mut keys = [0; 64];
    let mut stdin = libc::pollfd { fd: libc::STDIN_FILENO, events: libc::POLLIN, revents: 0 };
    // SAFETY: the pointer is to one whole struct; nothing is waited for.
    if unsafe { libc::poll(&mut stdin, 1, 0) } <= 0 || stdin.revents & libc::POLLIN == 0 {
        return;
    }
    let read = io::Read::read(&mut io::stdin(), &mut keys).unwrap_or(0);
    let mut links = lock(boards);
    let mut keys = &keys[..read];
    while let [key, rest @ ..] = keys {
        keys = rest;
        match (key, rest) {
            (b'\t', _) => links.boards_mut().turn(),
            (b'q', _) => interrupted().store(true, Ordering::Relaxed),
            // Arrows, as terminals send them (ECMA-48, or in application mode).
            (0x1b, [b'[' | b'O', arrow @ (b'A' | b'B'), rest @ ..]) => {
                links.choose(*arrow == b'B');
                keys = rest;
            }
            _ => {}
        }
    }
}

/// Gives the terminal back as it was. Can be called at any time and from any thread.
pub fn restore() {
    if ACTIVE.swap(0, Ordering::SeqCst) == 0 {
        return;
    }
    wait_for_pen();
    let mut stdout = io::stdout();
    if let Ok(mut file) = stdout.as_fd().try_clone_to_owned().map(File::from) {
        // Some terminals, resized meanwhile, mix what is left on one screen into the other.
        let _ = execute!(file, Clear(ClearType::All), LeaveAlternateScreen, Show);
    }
    let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(before) = before {
        let _ = tcsetattr(&stdout, OptionalActions::Now, &before);
        // What was typed meanwhile was not meant for the shell.
        let _ = tcflush(&stdout, QueueSelector::IFlush);
    }
    let _ = stdout.flush();
}

/// Waits until no picture is being drawn, but not for a terminal that takes nothing.
fn wait_for_pen() {
    let deadline = Instant::now() + PATIENCE;
    while matches!(PEN.try_lock(), Err(TryLockError::WouldBlock)) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Lets a panic give the terminal back before it prints its message.
fn restore_on_panic() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            restore();
            previous(panic);
        }));
    });
}
