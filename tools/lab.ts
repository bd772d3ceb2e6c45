import { inOwnLab } from './own-lab.ts'
import { attachTo, findLab, labDown, labUp, listLabs } from '../lab/lab.ts'

const HELP = `The lab is a real host in a container on this machine: its own systemd, network, journal and users, QEMU, and a
pool that can reflink. The checkout is at /src (read only), demo guest images are in /srv/guest.

  ./dev lab up [NAME]              boot it (built first where the cache has none); NAME is main by default
  ./dev lab sh [NAME] [-- CMD…]    a root shell in it, or one command
  ./dev lab status                 which labs there are
  ./dev lab down [NAME | --all]    end it with everything in it, and leave nothing behind
  ./dev lab run -- CMD…            one command in a lab of its own that is thrown away afterwards
`

/** Splits `[NAME] [-- CMD…]`. */
function split(args: readonly string[]): { name: string; command: readonly string[] } {
  const at = args.indexOf('--')
  const before = at < 0 ? args : args.slice(0, at)
  if (before.length > 1) throw new Error(`one name, not ${before.join(' ')}; a command stands after --`)
  return { name: before[0] ?? 'main', command: at < 0 ? [] : args.slice(at + 1) }
}

async function up(args: readonly string[]): Promise<number> {
  const { name } = split(args)
  const lab = await labUp(name)
  console.log(
    `lab ${name} runs since ${lab.startedAt}; enter it with ./dev lab sh${name === 'main' ? '' : ` ${name}`}`,
  )
  return 0
}

async function down(args: readonly string[]): Promise<number> {
  const names = args.includes('--all') ? listLabs().map((lab) => lab.name) : [split(args).name]
  for (const name of names) {
    const isThere = listLabs().some((lab) => lab.name === name)
    await labDown(name)
    console.log(isThere ? `lab ${name} is gone` : `there is no lab ${name}`)
  }
  return 0
}

async function sh(args: readonly string[]): Promise<number> {
  const { name, command } = split(args)
  const lab = findLab(name)
  if (lab === undefined) throw new Error(`lab ${name} does not run; ./dev lab up ${name}`)
  return attachTo(lab, command.length > 0 ? command : ['bash', '-l'])
}

function status(): number {
  const labs = listLabs()
  if (labs.length === 0) console.log('no labs')
  for (const { name, state, running } of labs) {
    const leader = running
      ? `runs since ${state?.startedAt}, init is process ${state?.leader?.pid}`
      : 'does not run'
    console.log(`${name}: ${leader}`)
  }
  return 0
}

async function runOnce(args: readonly string[]): Promise<number> {
  const { command } = split(args)
  if (command.length === 0) throw new Error('nothing to run: ./dev lab run -- CMD…')
  return inOwnLab(`run-${process.pid}`, (lab) => attachTo(lab, command))
}

/** Runs `./dev lab`. Returns the exit status. */
export async function main(args: readonly string[]): Promise<number> {
  const [verb = '--help', ...rest] = args
  switch (verb) {
    case 'up':
      return up(rest)
    case 'down':
      return down(rest)
    case 'sh':
      return sh(rest)
    case 'status':
      return status()
    case 'run':
      return runOnce(rest)
    default:
      process.stdout.write(HELP)
      return verb === '--help' ? 0 : 2
  }
}
