// The list of keys, and the switch that turns them off.

import { helpOpen, keyWords } from '../keys';
import { keysOn } from '../preferences';
import { Dialog } from './Dialog';

export function KeyHelp() {
  if (!helpOpen.value) {
    return null;
  }
  return (
    <Dialog
      title="Keys"
      onClose={() => {
        helpOpen.value = false;
      }}
    >
      <label class="check">
        <input
          type="checkbox"
          checked={keysOn.value}
          onChange={(e) => {
            keysOn.value = e.currentTarget.checked;
          }}
        />
        Single keys do something
      </label>
      <table class="keys">
        <caption class="hidden">Keys and what they do</caption>
        <tbody>
          {keyWords.map((k) => (
            <tr key={k.keys}>
              <th scope="row">
                {k.keys.split(' ').map((key) => (
                  <kbd key={key}>{key}</kbd>
                ))}
              </th>
              <td>{k.does}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Dialog>
  );
}
