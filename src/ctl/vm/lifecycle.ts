import { answered, answeredUnlessEmpty } from '../../client/api-client.ts'
import { changeEach, changeVm, DRY_RUN_OPTION, dryRunQuery } from './change.ts'
import { parseSeconds } from '../units.ts'
import { WAIT_OPTIONS } from './wait.ts'
import type { Vm } from '../../client/api-client.ts'
import type { paths } from '../../client/schema.d.ts'
import type { ExitStatus } from '../exit-status.ts'
import type { Terms } from './change.ts'
import type { Command, Context, Option } from '../command.ts'

type PowerWords = {
  readonly verb: string
  readonly state: Vm['desired']['power']
  readonly summary: string
  readonly description: string
}

type SetPower = paths['/v1/vms/{id}/power']['put']['requestBody']['content']['application/json']

/** Asks for a power state of each named VM. */
const setPower = (context: Context, body: SetPower, terms: Pick<Terms, 'goal'> = {}): Promise<ExitStatus> =>
  changeEach(
    context,
    (id) => {
      const params = { path: { id }, query: dryRunQuery(context) }
      return answered<Vm>(context.client().PUT('/v1/vms/{id}/power', { params, body }))
    },
    { ...terms, triesAgain: true },
  )

const powerCommand = ({ verb, state, summary, description }: PowerWords): Command => ({
  words: ['vm', verb],
  summary,
  description,
  operand: { placeholder: 'NAME', many: true, completes: 'vm' },
  options: [...WAIT_OPTIONS, DRY_RUN_OPTION],
  examples: [
    ['web-1', 'returns at once; the host follows'],
    ['web-1 web-2 --wait --timeout 2m', `returns when both are ${state}, or with status 3 after two minutes`],
    ['web-1 --dry-run', 'shows the steps that this would take'],
  ],
  run: (context) => setPower(context, { state }, state === 'running' ? { goal: { state } } : {}),
})

export const startCommand = powerCommand({
  verb: 'start',
  state: 'running',
  summary: 'start VMs',
  description:
    'A stopped VM boots; a paused or sleeping VM continues where it was. What failed is tried again at once. --wait ends ' +
    'when the guest runs.',
})

const GRACE_OPTION: Option = {
  name: 'grace',
  value: 'TIME',
  help: 'ask the guest to end, and stop it hard after this time, such as 30s or 2m',
  check: parseSeconds,
}

/** Returns the body's member for `--grace`. */
function graceOf({ given }: Context): { readonly grace_seconds?: number } {
  const text = given.text('grace')
  return text === undefined ? {} : { grace_seconds: parseSeconds(text, '--grace') }
}

export const stopCommand: Command = {
  words: ['vm', 'stop'],
  summary: 'stop VMs',
  description:
    'Stops at once, like a power cut: the guest is not asked. With --grace the guest is asked first, by its agent or its ' +
    'power button, and a sleeping VM is woken for it; vm stop without --grace then stops it at once. The disk stays. The ' +
    'saved state of a sleeping VM is discarded. If a saved state cannot be restored any more, this is how to recover: stop ' +
    'the VM, and start boots it.',
  operand: { placeholder: 'NAME', many: true, completes: 'vm' },
  options: [GRACE_OPTION, ...WAIT_OPTIONS, DRY_RUN_OPTION],
  examples: [
    ['web-1', 'returns at once; the host follows'],
    [
      'web-1 --grace 30s --wait',
      'lets its services end, for half a minute at most, and returns when it is stopped',
    ],
    ['web-1 --dry-run', 'shows the steps that this would take'],
  ],
  run: (context) => setPower(context, { state: 'stopped', ...graceOf(context) }),
}

export const rebootCommand: Command = {
  words: ['vm', 'reboot'],
  summary: 'reboot VMs',
  description:
    'Ends the guest and boots it again. With --grace the guest is asked to end first; without it the guest ends at once, ' +
    'like in a power cut. --wait ends when the guest runs again.',
  operand: { placeholder: 'NAME', many: true, completes: 'vm' },
  options: [GRACE_OPTION, ...WAIT_OPTIONS, DRY_RUN_OPTION],
  examples: [
    ['web-1 --grace 30s', 'lets its services end, for half a minute at most'],
    ['web-1 --wait', 'reboots at once, and returns when its guest runs again'],
  ],
  beginsAgain: true,
  run: (context) =>
    changeEach(context, (id) => {
      const params = { path: { id }, query: dryRunQuery(context) }
      return answered<Vm>(context.client().POST('/v1/vms/{id}/reboot', { params, body: graceOf(context) }))
    }),
}

export const pauseCommand = powerCommand({
  verb: 'pause',
  state: 'paused',
  summary: 'pause VMs',
  description:
    'The guest stops and keeps its memory. A stopped VM is started paused. A sleeping VM is woken and then paused.',
})

export const resumeCommand = powerCommand({
  verb: 'resume',
  state: 'running',
  summary: 'resume paused VMs',
  description: 'Same as start.',
})

/** Says why keeping a VM awake changes nothing now; undefined if it does. */
function whyNotAwake({ desired, observed }: Vm, until: string): string | undefined {
  if (desired.compute.sleep_after_idle_seconds === 0) return 'its idle timeout is 0, so it never sleeps'
  if (observed.state !== 'stopped') return undefined
  return `it is stopped, and when it runs it does not sleep before ${until}`
}

export const keepAwakeCommand: Command = {
  words: ['vm', 'keep-awake'],
  summary: 'keep a VM awake for a while',
  description:
    'For work in the guest that causes no traffic. A sleeping VM is woken. The desired state does not change. The time ' +
    'counts from now, by the clock of this machine; the newest request replaces the earlier one, and 0 ends it.',
  operand: { placeholder: 'NAME', completes: 'vm' },
  secondOperand: { placeholder: 'TIME' },
  options: [DRY_RUN_OPTION],
  examples: [
    ['web-1 20m', 'no sleep in the next 20 minutes'],
    ['web-1 0', 'the idle timeout applies again'],
  ],
  run: (context) => {
    const { client, given, shell } = context
    const params = { path: { id: given.operand }, query: dryRunQuery(context) }
    const seconds = parseSeconds(given.secondOperand, 'TIME')
    const until = seconds === 0 ? null : new Date(shell.nowMs() + seconds * 1000).toISOString()
    return changeVm(context, client().PUT('/v1/vms/{id}/keep-awake', { params, body: { until } }), {
      ...(until === null
        ? {}
        : { goal: { state: 'running' }, withoutEffect: (vm) => whyNotAwake(vm, until) }),
    })
  },
}

export const removeCommand: Command = {
  words: ['vm', 'rm'],
  summary: 'delete VMs with their disks',
  description: 'Stops them hard and removes everything that they have on the host. This cannot be undone.',
  operand: { placeholder: 'NAME', many: true, completes: 'vm' },
  options: [
    ...WAIT_OPTIONS,
    DRY_RUN_OPTION,
    {
      name: 'source-lost',
      help: 'only for a VM that was coming from a host that is lost for good and did not release it; other VMs are refused',
    },
  ],
  examples: [
    ['web-1 --wait', 'returns when nothing of it is left'],
    ['web-1 web-2', 'returns at once; the host follows; also succeeds for VMs that are already gone'],
  ],
  run: (context) =>
    changeEach(
      context,
      async (id) => {
        const sourceLost = context.given.isSet('source-lost') ? { source_lost: true } : {}
        const params = { path: { id }, query: { ...dryRunQuery(context), ...sourceLost } }
        const { data, ...answer } = await answeredUnlessEmpty<Vm>(
          context.client().DELETE('/v1/vms/{id}', { params }),
        )
        if (data !== undefined) return { data, ...answer }
        context.print({ id, gone: true }, () => `${id}: did not exist`)
        return undefined
      },
      { goal: 'gone' },
    ),
}
