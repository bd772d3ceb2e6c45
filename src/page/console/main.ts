/** The console page. Its document is src/api/controller/routes/console-page.ts. */
import { find } from '../browser/elements.ts'
import { Connection, requestOf } from './connection.ts'
import { KeyBar } from './key-bar.ts'
import { Screen } from './screen.ts'
import { noticeOf, shortWords, statusWords, takesInput } from './status.ts'
import type { Display } from './connection.ts'
import type { WindowSize } from '../../core/console/console-viewer.ts'
import type { Status } from './status.ts'

const request = requestOf(location)
const terminal = find('terminal', HTMLElement)
const statusLine = find('status', HTMLParagraphElement)
const again = find('again', HTMLButtonElement)
const user = find('user', HTMLInputElement)
const spoken = find('spoken', HTMLInputElement)
const notice = find('notice', HTMLElement)
/** Whether the terminal shows a session, or did. */
let hasShown = false

const keys = new KeyBar((key) => screen.press(key))
const screen = new Screen(terminal, {
  typed: (text) => keys.typed(text),
  onInput: (bytes) => connection.type(bytes),
  onResize: (size) => {
    showSize(size)
    connection.resize(size)
  },
})

const display: Display = {
  get waiting() {
    return screen.waiting
  },
  drawn: () => screen.drawn(),
  begin(session, sameAsBefore) {
    hasShown = true
    screen.begin(session, sameAsBefore)
  },
  output: (bytes) => screen.output(bytes),
  status: showStatus,
}

const connection = new Connection({ ...request, window: screen.size }, display)

function showStatus(status: Status): void {
  const over = status.kind === 'refused' || status.kind === 'ended'
  const hadFocus = terminal.contains(document.activeElement)
  document.body.dataset['state'] = status.kind
  document.body.dataset['guest'] = status.kind === 'attached' ? status.guest : ''
  document.title = `${request.vm} · ${shortWords(status)}`
  statusLine.textContent = statusWords(status)
  const shown = noticeOf(status, hasShown)
  notice.hidden = shown === undefined
  for (const id of ['terminal', 'keys']) find(id, HTMLElement).hidden = shown !== undefined
  find('notice-title', HTMLElement).textContent = shown?.title ?? ''
  find('notice-words', HTMLElement).textContent = shown?.words ?? ''
  again.hidden = !over
  screen.typing = takesInput(status)
  // The terminal takes no more keys, and may be hidden.
  if (over && hadFocus) again.focus()
}

function showSize({ cols, rows }: WindowSize): void {
  find('size', HTMLElement).textContent = `${cols}×${rows}`
}

function connect(): void {
  void connection.show()
  screen.focus()
}

find('vm', HTMLElement).textContent = request.vm
find(request.mode, HTMLButtonElement).setAttribute('aria-current', 'true')
if (request.mode === 'ssh') user.value = request.user ?? user.value
again.addEventListener('click', connect)
spoken.addEventListener('change', () => {
  screen.spoken = spoken.checked
})
screen.onLeave = () => find('tty', HTMLButtonElement).focus()
showSize(screen.size)
connect()
