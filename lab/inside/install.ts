/* Installs the daemon in this lab and ends. */
import { closeController } from './controller.ts'
import { installDaemon } from './shell.ts'

await installDaemon()
closeController()
