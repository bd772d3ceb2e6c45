/** The page of the host. Its document is src/api/controller/routes/host-page.ts. */
import { announcementOf } from './announce.ts'
import { Controls } from './controls.ts'
import { daemon } from './daemon.ts'
import { LiveList } from './live-list.ts'
import { find, setText } from '../browser/elements.ts'
import { sleep } from '../browser/sleep.ts'
import { hasError } from '../../client/vm-words.ts'
import { rowOf } from './row.ts'
import { statusWords } from './status.ts'
import { Summary } from './summary.ts'
import { VmTable } from './table.ts'
import { titleOf } from './title.ts'
import { countsOf, countWords, visible } from './view.ts'
import type { Picture, Platform } from './live-list.ts'

// The listener serves the page at both addresses; a link that is kept should be the same.
if (location.pathname === '/ui') history.replaceState(null, '', `/ui/${location.search}`)

const { role } = document.body.dataset
const table = new VmTable(find('vms', HTMLTableElement), { hasConsoles: role === 'controller' })
const summary = new Summary()
const controls = new Controls(() => {
  draw()
  // What the reader chose is spoken; that another VM is there or gone is not.
  setText(find('announcement', HTMLElement), find('count', HTMLElement).textContent)
})
let picture: Picture | undefined

const platform: Platform = {
  monotonicMs: () => performance.now(),
  epochMs: () => Date.now(),
  sleep,
  get isHidden() {
    return document.hidden
  },
  async visible() {
    while (document.hidden)
      await new Promise((resolve) => document.addEventListener('visibilitychange', resolve, { once: true }))
  },
}

const list = new LiveList(daemon, platform, (next) => {
  const before = picture?.inventory
  picture = next
  draw()
  if (before === undefined || next.inventory === undefined || before === next.inventory) return
  const words = announcementOf(before, next.inventory)
  if (words !== '') setText(find('announcement', HTMLElement), words)
})

/** Shows the picture in the view that is chosen. */
function draw(): void {
  if (picture === undefined) return
  const { status, inventory, sync, trouble } = picture
  document.body.dataset['status'] = status.kind
  setText(find('status', HTMLElement), statusWords(status))
  const isRefused = status.kind === 'refused'
  find('refusal', HTMLElement).hidden = !isRefused
  if (isRefused) setText(find('refusal-words', HTMLElement), `${status.title}: ${status.detail}.`)
  summary.show(sync, trouble)
  drawVms(picture)
  const failing = [...(inventory?.vms.values() ?? [])].filter(hasError).length
  document.title = titleOf({ status, host: sync?.host.id, failing })
}

function drawVms({ inventory, sync, aheadMs }: Picture): void {
  find('vms-part', HTMLElement).hidden = inventory === undefined
  if (inventory === undefined) return
  const { vms } = inventory
  const { view } = controls
  controls.show(countsOf(vms.values(), view.choice))
  const shown = visible(vms.values(), view)
  const residentMib = new Map(
    sync?.vms.flatMap(({ id, resident_mib: mib }) => (mib === undefined ? [] : [[id, mib] as const])),
  )
  const now = { nowMs: Date.now() + aheadMs, residentMib }
  table.show(
    shown.map((vm) => rowOf(vm, now)),
    vms,
  )
  setText(find('count', HTMLElement), countWords(shown.length, vms.size))
  find('vms', HTMLElement).hidden = shown.length === 0
  find('none', HTMLElement).hidden = vms.size > 0
  find('choosing', HTMLElement).hidden = vms.size === 0
  find('no-match', HTMLElement).hidden = vms.size === 0 || shown.length > 0
}

const run = (): void => void list.run(new AbortController().signal)

document.addEventListener('visibilitychange', () => {
  if (document.hidden) list.leave()
  else list.poke()
})
find('again', HTMLButtonElement).addEventListener('click', run)
find('clear', HTMLButtonElement).addEventListener('click', () => controls.clear())
if (role === 'console') showConsoleForm()
else run()

/** Serves a client that may open consoles and not read the list. */
function showConsoleForm(): void {
  document.body.dataset['status'] = 'refused'
  find('host-part', HTMLElement).hidden = true
  find('status', HTMLElement).hidden = true
  find('consoles-only', HTMLElement).hidden = false
  find('open', HTMLFormElement).addEventListener('submit', (event) => {
    event.preventDefault()
    location.assign(`/ui/console/${encodeURIComponent(find('vm', HTMLInputElement).value.trim())}`)
  })
}
