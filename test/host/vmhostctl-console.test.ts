/** `vmhostctl console` as a person uses it: in a terminal (tmux), with a real guest. */
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { mutate, settled } from '../../lab/inside/controller.ts'
import { guestRequest } from '../../lab/inside/guest.ts'
import { mainPid, ready, sh, unitProperty } from '../../lab/inside/shell.ts'
import { until } from '../../lab/inside/until.ts'
import { sharedHost } from './shared-host.ts'
import { story } from './story.ts'

const NAME = 'typed'
const PANE = 'console'
const HINT = '~. at the start of a line leaves'

const skip = existsSync('/usr/bin/tmux') ? false : 'this lab has no tmux'

if (skip === false)
  sharedHost({
    make: async () => {
      await mutate('PUT', `/v1/vms/${NAME}`, guestRequest())
      await settled(NAME, 'running')
      await sh('tmux', 'new-session', '-d', '-s', PANE, '-x', '100', '-y', '30', 'sh')
      // Until the shell runs, tmux is still setting the modes of its terminal.
      await shows(/[#$] ?$/m)
    },
    remove: () => sh('tmux', 'kill-server'),
  })

/** Everything that the terminal has shown, with wrapped lines joined. */
const screen = (): Promise<string> => sh('tmux', 'capture-pane', '-p', '-J', '-S', '-', '-t', PANE)

/** Types text as it is; keys by their tmux names. */
const type = (text: string): Promise<string> => sh('tmux', 'send-keys', '-l', '-t', PANE, text)
const press = (...keys: readonly string[]): Promise<string> => sh('tmux', 'send-keys', '-t', PANE, ...keys)

/** The guest's part of the screen, without the program's own lines and the line end before each. */
const withoutNotes = (shown: string): string => shown.replaceAll(/\nvmhostctl: .*\n/g, '')

/** Counts the reports of a lost connection. */
const losses = async (): Promise<number> => (await screen()).split('connection lost; waiting').length - 1

const shows = (what: RegExp): Promise<string> =>
  until(`the terminal shows ${what}`, async () => {
    const shown = await screen()
    assert.ok(what.test(shown), `it shows …${shown.slice(-1000)}`)
    return shown
  })

/** The modes of the terminal as stty(1) prints them. */
async function modes(): Promise<string> {
  const tty = (await sh('tmux', 'display-message', '-p', '-t', PANE, '#{pane_tty}')).trim()
  return sh('stty', '--file', tty, '-g')
}

/** The window of the VM's serial console, in which its monitor runs: rows and columns. */
async function consoleSize(): Promise<string> {
  const tty = await unitProperty(`vmhost-${NAME}`, 'TTYPath')
  return (await sh('stty', '--file', tty, 'size')).trim()
}

let modesBefore = ''

story(
  'a person works on a console at a terminal',
  {
    'at a terminal, typed input reaches the guest and its answer is shown': async () => {
      modesBefore = await modes()
      await type(`vmhostctl console ${NAME}`)
      await press('Enter')
      await shows(new RegExp(HINT))
      await until('the terminal is raw', async () => ((await modes()) === modesBefore ? undefined : true))
      await shows(/demo guest ready/)
      await press('Enter')
      await type('echo guest-$((40 + 2))')
      await press('Enter')
      await shows(/^guest-42$/m)
    },
    'the guest gets the interrupt key': async () => {
      await type('echo running-$((3 + 4)); sleep 600; echo woken')
      await press('Enter')
      await shows(/^running-7$/m)
      await type('echo queued')
      await press('C-c')
      await type('echo after-$((1 + 1))')
      await press('Enter')
      assert.doesNotMatch(await shows(/^after-2$/m), /^woken$/m)
    },
    'the window of the console follows the size of the terminal': async () => {
      assert.equal(await consoleSize(), '30 100')
      await sh('tmux', 'resize-window', '-t', PANE, '-x', '132', '-y', '43')
      await until('the console has the new size', async () =>
        (await consoleSize()) === '43 132' ? true : undefined,
      )
    },
    'a restart of the daemon is reported, and input and output continue without loss': async () => {
      const pid = await mainPid(`vmhost-${NAME}`)
      await type('i=0; while [ $i -lt 60 ]; do i=$((i + 1)); echo tick-$i-; sleep 0.1; done')
      await press('Enter')
      await shows(/^tick-3-$/m)
      await sh('systemctl', 'restart', 'vmhostd')
      await shows(/connection lost; waiting for the daemon/)
      await shows(/vmhostctl: connected again/)
      const shown = await until('the last tick is shown', async () => {
        const text = withoutNotes(await screen())
        return /^tick-60-$/m.test(text) ? text : undefined
      })
      const ticks = [...shown.matchAll(/^tick-(\d+)-$/gm)].map(([, number]) => Number(number))
      assert.deepEqual(
        ticks,
        Array.from({ length: 60 }, (_, index) => index + 1),
      )
      await type('echo still-$((6 * 7))')
      await press('Enter')
      await shows(/^still-42$/m)
      assert.equal(await mainPid(`vmhost-${NAME}`), pid)
      await ready()
    },
    'input typed while the daemon is down reaches the guest when it is back': async () => {
      const earlier = await losses()
      await sh('systemctl', 'stop', 'vmhostd')
      await until('the loss is reported again', async () => ((await losses()) > earlier ? true : undefined))
      await type('echo typed-$((2 + 3))')
      await press('Enter')
      await sh('systemctl', 'start', 'vmhostd')
      await shows(/^typed-5$/m)
      await ready()
    },
    '~? shows the escapes; ~. leaves and restores the terminal, and the VM runs on': async () => {
      // The guest's shell asks for the cursor position at each prompt; an answer after leaving would be input of the
      // shell here.
      await type('echo reading-$((4 + 4)); cat')
      await press('Enter')
      await shows(/^reading-8$/m)
      await type('~?')
      await shows(/~~ {2}one ~ for the guest/)
      await type('~.')
      // The shell's prompt would come before the answer to a line typed earlier than it.
      await shows(new RegExp(`left the console of ${NAME}\\s+[#$]`))
      await until('the terminal is restored', async () =>
        (await modes()) === modesBefore ? true : undefined,
      )
      await type('echo status-$?-here')
      await press('Enter')
      await shows(/^status-0-here$/m)
      assert.notEqual(await mainPid(`vmhost-${NAME}`), '0')
    },
    'the stop of the VM ends the console, and the terminal is restored': async () => {
      await type(`vmhostctl console ${NAME}; echo ended-$?`)
      await press('Enter')
      await until('it is attached again', async () =>
        (await screen()).split(HINT).length === 3 ? true : undefined,
      )
      await sh('vmhostctl', 'vm', 'stop', NAME, '--wait')
      await shows(new RegExp(`${NAME} has stopped`))
      await shows(/^ended-0$/m)
      assert.equal(await modes(), modesBefore)
      assert.match(await sh('vmhostctl', 'console', NAME), /reading-8/, 'its last output stays readable')
    },
  },
  { skip },
)
