import { CONFIG_PATH } from '../../config/config.ts'
import type { CommandHelp, HelpOption } from './command-help.ts'

export const CONFIG_OPTION: HelpOption = ['--config FILE', `the configuration to read (${CONFIG_PATH})`]

type Exits = CommandHelp['exits']

export const DONE_OR_FAILED: Exits = [
  [0, 'done'],
  [1, 'it failed'],
  [2, 'wrong usage'],
]

export const DONE_OR_REFUSED: Exits = [
  [0, 'done'],
  [1, 'refused or failed'],
  [2, 'wrong usage'],
]
