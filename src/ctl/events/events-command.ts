import { limits } from '../../config/limits.ts'
import { printable } from '../../lib/text.ts'
import { answered } from '../../client/api-client.ts'
import { usageError } from '../ctl-error.ts'
import { exitStatus } from '../exit-status.ts'
import { allPages, showList } from '../several.ts'
import { eventColour, eventWords, timeWords } from './event-words.ts'
import { given as present } from '../../lib/given.ts'
import { DAY_MS } from '../../lib/time-units.ts'
import type { EventSight, EventStart, HostEvent } from '../../client/events.ts'
import type { Command, Context } from '../command.ts'

function parseSequence(text: string, what: string): number {
  if (/^[0-9]{1,16}$/.test(text)) return Number(text)
  throw usageError(`${what} ${text} is not the number of an event`, 'write the "sequence" of one, or 0')
}

export const eventsCommand: Command = {
  words: ['events'],
  summary: 'show past and new events of the host',
  description:
    `Shows every event that is kept, the oldest first: the last ${limits.eventsMax} of ${limits.eventsAgeMsMax / DAY_MS} ` +
    `days, and ${limits.eventsKeptMin} in any case. --follow shows new events until you interrupt it, and continues after ` +
    'a restart of the daemon. --json prints one object a line; a line with "missed" says that events before it are missing.',
  options: [
    { name: 'follow', help: 'show events as they happen, and do not end' },
    {
      name: 'after',
      value: 'NUMBER',
      help: 'only events after this one: the "sequence" of the last that you have seen',
      check: parseSequence,
    },
    { name: 'vm', value: 'NAME', help: 'only events of this VM', completes: 'vm' },
  ],
  examples: [
    ['--follow', 'new events'],
    ['--vm web-1', 'the events of a VM that are kept'],
    ['--follow --after 1893456000001042 --json', 'in a program that has seen this number'],
    ['--json | jq -r \'select(.kind == "vm_waking") | .packet.source\'', 'who wakes VMs'],
  ],
  endsWithReader: true,
  run: async (context) => {
    const { given, shell } = context
    const after = given.text('after')
    const vmId = given.text('vm')
    const follow = given.isSet('follow')
    const from = after === undefined ? (follow ? undefined : 0) : parseSequence(after, '--after')
    const sights = context.readEvents({
      follow,
      ...present({ after: from, vmId }),
      signal: new AbortController().signal,
      sleep: shell.sleep,
    })
    const print = printer(context, { mindsGap: after !== undefined || follow, from })
    for await (const sight of sights) print(sight)
    return exitStatus.done
  },
}

/**
 * Returns the function that prints what a reader gets. Without `mindsGap`, the reader wants only what is kept. `from`
 * is the number that the reader knows.
 */
function printer(
  context: Context,
  { mindsGap, from }: { readonly mindsGap: boolean; readonly from: number | undefined },
): (sight: EventSight) => void {
  const { shell, json, paint, warn } = context
  let isSilent = false
  let known = from ?? 0
  if (!json) shell.stdout.write(`${paint(lineOf('TIME', 'VM', 'WHAT'), 'bold')}\n`)
  const onStart = (start: EventStart): void => {
    isSilent = false
    if (start.missed && mindsGap) {
      if (json) shell.stdout.write(`${JSON.stringify(start)}\n`)
      warn(gapWords(start, known))
    }
    known = start.after
  }
  return (sight) => {
    if (sight.kind === 'start') onStart(sight.start)
    else if (sight.kind === 'event') {
      shell.stdout.write(`${json ? JSON.stringify(sight.event) : shown(context, sight.event)}\n`)
      known = sight.event.sequence
    } else {
      if (!isSilent) warn(`${sight.because?.message ?? 'the daemon ended the stream'}; connecting again`)
      isSilent = true
    }
  }
}

/** Says what is missing to a reader that knows everything up to a number. */
function gapWords({ after, kept_after: keptAfter }: EventStart, known: number): string {
  if (known < after) return `events are missing: those up to number ${after} are no longer kept`
  // The host sends what it keeps, or what followed the last number that is on record.
  const follow =
    after === keptAfter ? 'all events that are kept follow' : `those after number ${after} follow`
  return `events may be missing: number ${known} is not one of this host, or of records that it has lost; ${follow}`
}

function shown({ paint }: Pick<Context, 'paint'>, event: HostEvent): string {
  const words = paint(printable(eventWords(event)), eventColour(event))
  return lineOf(printable(timeWords(event)), printable(event.vm_id ?? '-'), words)
}

const VM_COLUMNS = 16

const lineOf = (time: string, vm: string, what: string): string =>
  `${time.padEnd(20)}  ${vm.padEnd(VM_COLUMNS)}  ${what}`

export const historyCommand: Command = {
  words: ['vm', 'history'],
  summary: 'show what happened to a VM',
  description:
    'Shows the events of the VM and its snapshots that are kept, the oldest first, even after the VM is gone. "vmhostctl ' +
    'events --follow --vm NAME" shows new events.',
  operand: { placeholder: 'NAME', completes: 'vm' },
  options: [],
  examples: [
    ['web-1', 'for reading'],
    ['web-1 --json | jq \'.items[] | select(.kind == "vm_fault")\'', 'its faults, for a program'],
  ],
  run: async (context) => {
    const path = { id: context.given.operand }
    const client = context.client()
    const items = await allPages((page) =>
      answered(
        client.GET('/v1/vms/{id}/events', {
          params: { path, query: { limit: limits.listItemsMax, ...page } },
        }),
      ),
    )
    return showList(context, {
      items,
      head: ['TIME', 'WHAT'],
      rowsOf: (events) =>
        events.map((event) => {
          return [timeWords(event), { text: eventWords(event), colour: eventColour(event) }]
        }),
      none: () => `no events of ${path.id} are kept; vmhostctl vm ls shows the VMs there are`,
    })
  },
}
