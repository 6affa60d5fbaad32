"""Blind cases told in the learner's own language."""

from __future__ import annotations

import re

import pytest

from course_lib.lab.job.recipes import fault
from course_lib.lab.mysteries import KINDS, seal
from course_lib.teach.checks import lesson16
from course_lib.teach.diagnoses.judging import is_meant
from course_lib.teach.diagnoses.known import known
from course_lib.teach.diagnoses.wording import claimed

from .finished_runs import hint_of
from .korean_diagnoses_to_try import CONTRASTS, NOTHING_BUT_DENIED, RIGHT, VAGUE

SAID = {
    "stuck": ["랭크 2가 데이터를 기다리다 멈췄습니다", "데이터 로더의 워커가 끝났다", "교착 상태"],
    "skipped": ["한 랭크가 스텝을 하나 건너뛰었다", "랭크 2가 먼저 끝났습니다"],
    "shape": ["all_reduce의 모양이 다르다", "그래디언트가 절반뿐: 크기가 맞지 않음"],
    "hoard": ["메모리 부족", "로짓을 모두 간직해서 메모리가 모자랍니다"],
    "leak": ["메모리 누수", "메모리가 스텝마다 늘어납니다", "그래디언트가 쌓인다"],
    "killed": ["프로세스가 죽었습니다", "강제 종료됨 (신호 9)"],
    "node-dies": ["노드가 통째로 죽었다", "노드 2가 사라졌습니다", "노드 장애"],
    "slow-rank": ["낙오자: 디바이스가 느립니다", "클록이 낮아졌다"],
    "wrong-port": ["틀린 포트로 연결", "포트 번호가 다릅니다"],
    "wrong-master": ["마스터 주소가 틀렸습니다", "자기 자신을 마스터로 여긴다"],
    "bad-name": ["호스트 이름을 찾지 못합니다", "이름에 오타"],
    "port-taken": ["포트가 이미 사용 중입니다", "다른 프로그램이 포트를 쓰고 있다"],
    "bad-sample": ["나쁜 샘플이 NaN을 만들었습니다", "토큰이 없는 시퀀스를 0으로 나눔"],
    "exploding": ["학습률이 너무 높아 발산했습니다", "그래디언트 폭발"],
    "same-data": ["모든 랭크가 같은 데이터를 읽습니다", "샘플러가 랭크를 모른다"],
    "unequal-weights": ["한 랭크의 가중치가 다릅니다", "시드가 달라 다른 가중치로 시작했다"],
    "same-dropout": ["드롭아웃 마스크가 모두 같음", "모든 랭크가 같은 난수를 뽑습니다"],
    "same-order": ["에폭마다 순서가 같습니다", "set_epoch를 잊어 같은 순서로 섞인다"],
    "disk-full": ["디스크가 가득 찼습니다", "남은 공간이 없다"],
    "no-internet": ["인터넷에서 토크나이저를 내려받으려 합니다"],
    "missing-module": ["한 노드에 모듈이 없습니다", "패키지가 설치되지 않음"],
    "old-module": ["한 노드의 모듈이 옛 버전입니다", "낡은 모듈"],
}
CURES = {
    "stuck": "데이터를 읽는 스레드를 살피고 타임아웃을 정한다",
    "skipped": "모든 랭크에 같은 수의 스텝",
    "shape": "모든 랭크에서 같은 파라미터",
    "hoard": "로짓을 간직하지 않는다",
    "leak": "수만 간직한다",
    "killed": "마지막 체크포인트에서 이어 간다",
    "node-dies": "노드를 빼고 다시 시작",
    "slow-rank": "그 노드를 제외한다",
    "wrong-port": "모두에게 한 포트",
    "wrong-master": "첫 노드의 주소",
    "bad-name": "노드가 아는 이름",
    "port-taken": "작업 번호에서 포트를 정한다",
    "bad-sample": "데이터를 거른다",
    "exploding": "학습률을 낮춘다",
    "same-data": "샘플러에 랭크를 준다",
    "unequal-weights": "랭크 0에서 브로드캐스트",
    "same-dropout": "시드에 랭크를 더한다",
    "same-order": "set_epoch를 부른다",
    "disk-full": "자리를 비운다",
    "no-internet": "로그인 노드에서 미리 내려받는다",
    "missing-module": "거기에 설치한다",
    "old-module": "모듈을 업데이트한다",
}

MORE_CURES = {
    "stuck": "로더에 타임아웃을 건다; 워커를 재시작한다",
    "skipped": "스텝을 건너뛰지 않게 한다; 모든 랭크가 같은 스텝 수를 돌게; join을 쓴다",
    "shape": "모든 랭크의 텐서 크기를 맞춘다; 같은 파라미터를 동결",
    "hoard": "배치를 줄인다; 메모리를 적게 쓰게 한다",
    "leak": "detach한다; 리스트를 비운다; item()으로 수만 저장",
    "killed": "체크포인트에서 재개; 다시 제출한다",
    "node-dies": "노드 2를 제외하고 실행; 노드를 제외하고 재시작; 다른 노드를 쓴다",
    "slow-rank": "그 노드를 뺀다; 관리자에게 알린다; GPU를 교체한다",
    "wrong-port": "같은 포트를 준다; MASTER_PORT를 통일한다",
    "wrong-master": "마스터 주소를 첫 노드로; MASTER_ADDR을 통일",
    "bad-name": "이름을 고친다; IP 주소를 쓴다",
    "port-taken": "다른 포트를 쓴다; 빈 포트를 고른다",
    "bad-sample": "그 샘플을 제거한다; 데이터를 정제한다",
    "exploding": "학습률을 내린다; 그래디언트 클리핑",
    "same-data": "DistributedSampler를 쓴다; 데이터를 랭크별로 나눈다",
    "unequal-weights": "처음에 가중치를 브로드캐스트; 시드를 통일한다",
    "same-dropout": "랭크마다 시드를 다르게; 시드에 랭크 번호를 더한다",
    "same-order": "에폭마다 set_epoch 호출; 다시 섞는다",
    "disk-full": "옛 체크포인트를 삭제한다; 공간을 확보한다",
    "no-internet": "미리 받아 둔다; 로그인 노드에서 다운로드",
    "missing-module": "모듈을 설치한다; 환경을 맞춘다",
    "old-module": "버전을 맞춘다; 업그레이드한다",
}


@pytest.fixture(autouse=True)
def spoken_korean(monkeypatch):
    monkeypatch.setenv("COURSE_LANGUAGE", "ko")


@pytest.fixture
def blind_case(finished):
    def make(kind):
        recipe = fault.recipe("mystery-9", planted_fault=seal(f"{kind}:2:5"))
        return finished(recipe, "", exit_code=1)

    return make


def test_every_kind_has_korean_words():
    assert set(SAID) == set(CURES) == set(KINDS)
    for name, kind in known().items():
        assert re.search("[가-힣]", kind.words), name
        assert re.search("[가-힣]", kind.cure), name


@pytest.mark.parametrize("kind", KINDS)
def test_a_right_cause_and_cure_in_korean_are_taken(kind):
    for said in SAID[kind]:
        assert is_meant(known()[kind], said), said
    assert known()[kind].is_cured_by(CURES[kind])


def test_few_wrong_causes_in_korean_pass_for_another():
    taken = [(kind, said) for other, many in SAID.items() for said in many for kind in KINDS
             if kind != other and is_meant(known()[kind], said)]  # fmt: skip
    assert len(taken) <= 6, taken


@pytest.mark.parametrize("code", ["en", "ko"])
def test_both_languages_are_understood_in_every_notebook(blind_case, monkeypatch, code):
    monkeypatch.setenv("COURSE_LANGUAGE", code)
    assert is_meant(known()["leak"], "memory leak")
    assert is_meant(known()["leak"], "메모리 누수")
    assert not is_meant(known()["leak"], "메모리 누수가 아닙니다. 디스크가 가득 찼습니다")
    lesson16.ex16_mystery(blind_case("stuck"), SAID["stuck"][0], "랭크 2", "노드 2", CURES["stuck"])


@pytest.mark.parametrize("kind", KINDS)
def test_a_right_cause_as_people_word_it_is_taken(kind):
    assert [said for said in RIGHT[kind] if not is_meant(known()[kind], said)] == []


def test_what_is_said_of_one_kind_is_seldom_taken_for_another():
    taken = [(kind, said) for other, many in RIGHT.items() for said in many for kind in KINDS
             if kind != other and is_meant(known()[kind], said)]  # fmt: skip
    assert len(taken) <= 8, taken


@pytest.mark.parametrize("line", CONTRASTS.strip().splitlines())
def test_what_is_denied_is_not_meant_and_what_is_said_beside_it_is(line):
    said, told = line.rsplit(": ", 1)
    right, wrong = told.split(", not ")
    assert (is_meant(known()[right], said), is_meant(known()[wrong], said)) == (True, False)


@pytest.mark.parametrize("many", [VAGUE, NOTHING_BUT_DENIED])
def test_what_is_vague_and_what_is_only_denied_is_no_diagnosis(many):
    said = [" ".join(one.split()) for one in many.split(";")]
    assert [(one, kind) for one in said for kind in KINDS if is_meant(known()[kind], one)] == []


def test_more_cures_as_people_word_them():
    refused = [(kind, said) for kind, many in MORE_CURES.items() for said in many.split("; ")
               if not known()[kind].is_cured_by(claimed(said))]  # fmt: skip
    assert refused == []


@pytest.mark.parametrize("rank", ["랭크 2", "2번 랭크", "랭크2", "랭크 2번", "2번"])
@pytest.mark.parametrize("node", ["노드 2", "노드2", "2번 노드", "둘째 노드", "node2"])
def test_a_rank_and_a_node_in_korean(blind_case, rank, node, capsys):
    lesson16.ex16_mystery(blind_case("killed"), SAID["killed"][0], rank, node, CURES["killed"])
    assert "✗" not in capsys.readouterr().out


@pytest.mark.parametrize("nobody", ["없음", "모든 랭크", "전부", "해당 없음", "아무 랭크도 아님"])
def test_nobody_in_korean(blind_case, nobody, capsys):
    run = blind_case("same-data")
    lesson16.ex16_mystery(run, SAID["same-data"][0], nobody, "모든 노드", CURES["same-data"])
    assert "✗" not in capsys.readouterr().out


WRONG_PLACES = [
    ("랭크 3", "노드 2"),
    ("랭크 2", "노드 1"),
    ("랭크 2나 3", "노드 2"),
    ("2번", "노드 2가 아님"),
]


@pytest.mark.parametrize(("rank", "node"), WRONG_PLACES)
def test_a_wrong_rank_or_node_in_korean_is_refused(blind_case, rank, node):
    said, cure = SAID["killed"][0], CURES["killed"]
    assert "✗" in hint_of(lesson16.ex16_mystery, blind_case("killed"), said, rank, node, cure)
