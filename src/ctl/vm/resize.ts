import { parseCores, parseMib, parseSeconds } from '../units.ts'
import { changeVm, DRY_RUN_OPTION, dryRunQuery, requireOne, fromPresent } from './change.ts'
import { WAIT_OPTIONS } from './wait.ts'
import type { Vm } from '../../client/api-client.ts'
import type { Command, Context, Option } from '../command.ts'

/** Options for the size of a VM; creation has the same. */
export const SHAPE_OPTIONS: readonly Option[] = [
  { name: 'cpu', value: 'CORES', help: 'as 2, 1.5 or 0.25', check: parseCores },
  { name: 'memory', value: 'SIZE', help: 'as 512M or 2G', check: parseMib },
  { name: 'disk', value: 'SIZE', help: 'as 10G; a disk grows, and never shrinks', check: parseMib },
  {
    name: 'sleep-after',
    value: 'TIME',
    help: 'sleep after so long without traffic, as 10m; 0 switches that off',
    check: parseSeconds,
  },
]

export const resizeCommand: Command = {
  words: ['vm', 'resize'],
  summary: 'change CPU, memory, disk or idle timeout',
  description:
    'What is not given stays. CPU and memory change only while the VM is stopped; disk and idle timeout at any time. All ' +
    'of it is taken, or nothing.',
  operand: { placeholder: 'NAME', completes: 'vm' },
  options: [...SHAPE_OPTIONS, ...WAIT_OPTIONS, DRY_RUN_OPTION],
  examples: [
    ['web-1 --disk 20G --wait', 'grows the disk, while the VM runs'],
    ['web-1 --cpu 2 --memory 4G', 'of a stopped VM: vmhostctl vm stop web-1 --wait comes first'],
    ['web-1 --memory 64G --dry-run', 'whether the host would take it'],
  ],
  run: async (context) => {
    requireOne(context, SHAPE_OPTIONS)
    const path = { id: context.given.operand }
    return fromPresent(context, path.id, (vm, etag) => {
      const params = { path, query: dryRunQuery(context), header: { 'if-match': etag } }
      const body = { ...shapeOf(vm), ...givenShape(context) }
      return changeVm(context, context.client().PUT('/v1/vms/{id}/resize', { params, body }))
    })
  },
}

type Shape = {
  cpu_millicores: number
  memory_mib: number
  disk_mib: number
  sleep_after_idle_seconds: number
}

const shapeOf = ({ desired: { compute, disk } }: Vm): Shape => ({ ...compute, disk_mib: disk.size_mib })

/** Returns the members that the options set. */
export function givenShape({ given }: Pick<Context, 'given'>): Partial<Shape> {
  const shape: Partial<Shape> = {}
  const cpu = given.text('cpu')
  const memory = given.text('memory')
  const disk = given.text('disk')
  const sleep = given.text('sleep-after')
  if (cpu !== undefined) shape.cpu_millicores = parseCores(cpu, '--cpu')
  if (memory !== undefined) shape.memory_mib = parseMib(memory, '--memory')
  if (disk !== undefined) shape.disk_mib = parseMib(disk, '--disk')
  if (sleep !== undefined) shape.sleep_after_idle_seconds = parseSeconds(sleep, '--sleep-after')
  return shape
}
